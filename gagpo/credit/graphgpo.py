"""GraphGPO: a step is as good as the distance to the goal that it leaves."""

from __future__ import annotations

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.columns import following, make_credit, penalties, rewards
from gagpo.credit.episode import episode_terms
from gagpo.credit.graph import distances, rollout_graph
from gagpo.credit.groups import find_anchors, standardize
from gagpo.credit.sums import discounted_sums
from gagpo.table import Credit, StepTable


def graphgpo(table: StepTable, config: CreditConfig) -> Credit:
    """Graph-based Group Policy Optimization: an episode term and a term of distances.

        A_t = E_i + omega * (q_t - mean) / (sigma + 1e-8),     q_t = C gamma^d(s_{t+1}, goal)

    for t = 0 ... T - 1, with s_T the final state, C = goal_worth, E_i GRPO's advantage, and mean
    and sigma (population) over the steps of the group from the same state s_t. d is the length of
    the shortest path in the union of the group's steps, whichever trajectory they are from; d = 0
    at the goal. A step that is alone in its state, or whose state's q are all equal, has 0 in the
    second term. Rewards of single steps enter E_i alone. normalize as in GiGPO.

    Our choices: goals are the final states of the group's successful trajectories, and d is the
    distance to the nearest; where no path leads to one, q_t = 0. `value` is the mean of q in the
    state, `advantage` the sum of both terms before division. Source: arXiv 2605.26684.
    """
    anchors = find_anchors(table)
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    graph = rollout_graph(table, anchors)
    distance = distances(graph, graph.final[table.success])
    worth = np.where(distance >= 0, config.goal_worth * config.gamma ** np.maximum(distance, 0), 0.0)
    score = worth[graph.target] - penalties(table, config, "after_discounting")
    value = anchors.mean(score)[anchors.index]
    step_term = score - value
    episode_term, normalized_episode = episode_terms(table, config, reward, returns)
    scaled = config.normalize != "none"
    normalized_step = standardize(score, anchors.index, scale=score) if scaled else step_term
    return make_credit(
        table,
        config,
        anchors,
        reward=reward,
        return_to_go=returns,
        value=value,
        next_value=following(table, value, np.zeros(table.num_trajectories)),
        advantage=episode_term + config.omega * step_term,
        normalized=normalized_episode + config.omega * normalized_step,
    )
