"""Gated-BEPO: generalized advantages from Bellman's values, where a state offers a choice."""

from __future__ import annotations

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.bellman import bellman_values
from gagpo.credit.columns import following, make_credit, normalize_steps, penalties, rewards
from gagpo.credit.episode import episode_terms
from gagpo.credit.gagpo import final_value
from gagpo.credit.graph import branching, rollout_graph
from gagpo.credit.groups import find_anchors
from gagpo.credit.sums import discounted_sums
from gagpo.table import Credit, StepTable


def gated_bepo(table: StepTable, config: CreditConfig) -> Credit:
    """Gated-BEPO: GAE on Bellman's values at states that branch, episode credit elsewhere.

        V(s) = mean over the steps from s of (r_t + gamma V(s_{t+1}))      value, next_value
        d_t  = r_t + gamma V(s_{t+1}) - V(s_t)                             td_error
        a_t  = d_t + gamma lam a_{t+1}
        A_t  = (a_t - mean) / (sigma + 1e-8)   where steps of the group led from s_t to two or more
               E_i, GRPO's advantage           different states; else this

    for t = 0 ... T - 1, with V = 0 after the last step. GAGPO's V(s) is the mean of what was
    earned after s; this V also uses what others earned from the states that followed. The two are
    equal where no paths cross. `advantage` holds a_t or E_i before division.

    Our choices, as the paper leaves them open to us: the fixed point is that of the policy that
    acted (a mean over the steps taken, no maximum over actions); mean and sigma are over the a_t
    of all steps of the group, gated or not; truncation "bootstrap" concerns the last d_t alone, as
    in GAGPO. Options otherwise as in GAGPO. Source: arXiv 2608.06861.
    """
    anchors = find_anchors(table)
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    state_value = bellman_values(table, anchors, reward, config.gamma)
    value = state_value[anchors.index]
    next_value = following(table, value, final_value(table, config, anchors, state_value))
    td_error = reward + config.gamma * next_value - value
    temporal = discounted_sums(table, td_error, config.gamma * config.lam)
    temporal = temporal - penalties(table, config, "after_discounting")
    episode, normalized_episode = episode_terms(table, config, reward, returns)
    open_gate = branching(rollout_graph(table, anchors))[anchors.index]
    scale = np.maximum(np.abs(returns), np.abs(value))
    return make_credit(
        table,
        config,
        anchors,
        reward=reward,
        return_to_go=returns,
        value=value,
        next_value=next_value,
        advantage=np.where(open_gate, temporal, episode),
        normalized=np.where(
            open_gate, normalize_steps(table, config, temporal, scale=scale), normalized_episode
        ),
    )
