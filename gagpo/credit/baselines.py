"""The estimators that GAGPO is set beside: GiGPO, GRPO, RLOO and REINFORCE.

All take the same table and fill the same columns. `td_error` is always
r_t + gamma * next_value - value, for diagnosis. Each obeys gamma, normalize (but for RLOO),
invalid_penalty and penalty_rule; lam, own_return, truncation and episode_term do not concern them. Under
"after_discounting" the penalty is taken off the score of the invalid step alone, after the
returns are summed and before they are compared and normalised.
"""

from __future__ import annotations

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.columns import following, make_credit, normalize_steps, penalties, rewards
from gagpo.credit.episode import episode_return, episode_terms
from gagpo.credit.groups import find_anchors, group_numbers, standardize
from gagpo.credit.sums import discounted_sums
from gagpo.table import Credit, StepTable


def gigpo(table: StepTable, config: CreditConfig) -> Credit:
    """Group-in-Group Policy Optimization: an episode term and a step term.

        A_t = E_i + omega * (R_t - mean) / (sigma + 1e-8)

    E_i is GRPO's. Mean and sigma are over the anchor group of step t; alone there, or with a
    sigma that is only rounding, a step's second term is 0. The paper divides both terms by sigma
    or by 1: normalize "group" is its first norm (mode "mean_std_norm" of the public code), "none"
    its second ("mean_norm"); "batch" concerns the episode term only. `value` is the anchor group's
    mean, `advantage` the sum of both terms before division. Source: arXiv 2505.10978. Its code,
    verl-agent, takes an invalid action's penalty off after discounting (penalty_rule
    "after_discounting"), and the episode term over turns (see `grpo`).
    """
    anchors = find_anchors(table)
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    score = returns - penalties(table, config, "after_discounting")
    value = anchors.mean(score)[anchors.index]
    step_term = score - value
    episode_term, normalized_episode = episode_terms(table, config, reward, returns)
    scaled = config.normalize != "none"
    normalized_step = standardize(score, anchors.index, scale=returns) if scaled else step_term
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


def grpo(table: StepTable, config: CreditConfig) -> Credit:
    """Group Relative Policy Optimization: one advantage for all steps of a trajectory.

        A_t = (R_i - mean) / (sigma + 1e-8),    R_i = sum of the rewards of trajectory i

    with mean and sigma (population) over the trajectories of the group. Each trajectory counts
    once, as the paper says; verl-agent's code takes both over turns, so that long trajectories
    count more, has the sample's sigma (K - 1), and leaves a lone trajectory its whole return,
    where this gives it 0. Division by the sample's sigma would make all A smaller by a factor of
    sqrt((K - 1) / K). A penalty under "after_discounting" enters at its step, and the trajectory then
    counts with the mean over its steps. normalize "none" does not divide (as Dr. GRPO); "batch"
    takes mean and sigma over all trajectories. `value` is the group's mean, also as next_value.
    Source: arXiv 2402.03300.
    """
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    advantage, normalized = episode_terms(table, config, reward, returns)
    score = episode_return(table, reward)[table.trajectory]
    value = score - penalties(table, config, "after_discounting") - advantage
    return _from_baseline(table, config, reward, returns, value, advantage, normalized)


def rloo(table: StepTable, config: CreditConfig) -> Credit:
    """REINFORCE leave-one-out: A_t = R_i - mean of the other siblings' R, for all steps of i.

    R_i is the sum of the rewards of trajectory i, and a trajectory without siblings has A = 0.
    The advantage is never normalised. `value` is that mean, also as next_value.
    Source: arXiv 2402.14740.
    """
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    group = group_numbers(table)
    score = episode_return(table, reward)
    others = np.bincount(group)[group] - 1
    rest = (np.bincount(group, score)[group] - score) / np.maximum(others, 1)
    baseline = np.where(others > 0, rest, score)
    advantage = (score - baseline)[table.trajectory] - penalties(table, config, "after_discounting")
    value = baseline[table.trajectory]
    return _from_baseline(table, config, reward, returns, value, advantage, advantage)


def reinforce(table: StepTable, config: CreditConfig) -> Credit:
    """REINFORCE with return-to-go: a_t = R_t = sum over k >= 0 of gamma^k r_{t+k}.

    A_t is R_t standardised over the steps of the group, or as `normalize` says. There is no
    baseline but the mean in that: value and next_value are 0. Source: Williams 1992.
    """
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    advantage = returns - penalties(table, config, "after_discounting")
    normalized = normalize_steps(table, config, advantage, scale=returns)
    value = np.zeros(table.num_steps)
    return _from_baseline(table, config, reward, returns, value, advantage, normalized)


def _from_baseline(
    table: StepTable,
    config: CreditConfig,
    reward: np.ndarray,
    returns: np.ndarray,
    value: np.ndarray,
    advantage: np.ndarray,
    normalized: np.ndarray,
) -> Credit:
    """Credit of an estimator whose baseline `value` (S,) knows nothing of states."""
    return make_credit(
        table,
        config,
        find_anchors(table),
        reward=reward,
        return_to_go=returns,
        value=value,
        next_value=following(table, value, np.zeros(table.num_trajectories)),
        advantage=advantage,
        normalized=normalized,
    )
