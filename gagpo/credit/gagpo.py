"""GAGPO: generalized advantages from a value that the siblings yield without a critic."""

from __future__ import annotations

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.columns import following, make_credit, normalize_steps, penalties, rewards
from gagpo.credit.episode import episode_terms
from gagpo.credit.groups import Anchors, find_anchors
from gagpo.credit.sums import discounted_sums
from gagpo.table import Credit, StepTable


def gagpo(table: StepTable, config: CreditConfig) -> Credit:
    """Generalized Advantage Grouped Policy Optimization.

        R_t  = sum over k >= 0 of gamma^k r_{t+k}              return_to_go
        V(s) = mean of R over the anchor group of s            value, next_value
        d_t  = r_t + gamma V(s_{t+1}) - V(s_t)                 td_error
        a_t  = d_t + gamma lam a_{t+1}                         advantage
        A_t  = (a_t - mean) / (sigma + 1e-8) over the group    normalized

    for the steps t = 0 ... T - 1 of each trajectory, with V = 0 after the last. Every visit of a
    state counts. lam = 1 gives a_t = R_t - V(s_t), lam = 0 gives a_t = d_t. sigma is the
    population's; one that is only rounding makes every A of the group exactly 0.
    Source: arXiv 2605.13217. Options, all but the defaults ours:

    own_return "left_out": V(s_t) is the mean over the *other* steps of the anchor group. A step
    alone there keeps its own return, so that it brings no signal of its own, as by default.
    truncation "bootstrap": where a limit cut a trajectory in a state that some step of its group
    was taken in, the last d_t uses that state's V. R_t stays the observed sum: V is made of it,
    and bootstrapping both would define V by itself. Then lam = 1 gives
    a_t = R_t + gamma^(T-t) V(s_T) - V(s_t).
    penalty_rule "reward": the penalty is part of r_t. "after_discounting": it is taken off a_t
    of the invalid step alone, before normalisation. "after_normalization": off A_t.
    normalize "batch": mean and sigma over all steps of the table. "none": A_t = a_t.
    episode_term w: w times GRPO's advantage is added to a_t and A_t, as GiGPO adds it; the paper
    finds that this hurts.
    """
    anchors = find_anchors(table)
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    state_value = anchors.mean(returns)
    value = state_value[anchors.index]
    if config.own_return == "left_out":
        value = _without_own(value, returns, anchors.size[anchors.index])
    next_value = following(table, value, final_value(table, config, anchors, state_value))
    td_error = reward + config.gamma * next_value - value
    advantage = discounted_sums(table, td_error, config.gamma * config.lam)
    advantage = advantage - penalties(table, config, "after_discounting")
    normalized = normalize_steps(table, config, advantage, scale=returns)
    if config.episode_term:
        raw, scaled = episode_terms(table, config, reward, returns)
        advantage = advantage + config.episode_term * raw
        normalized = normalized + config.episode_term * scaled
    return make_credit(
        table,
        config,
        anchors,
        reward=reward,
        return_to_go=returns,
        value=value,
        next_value=next_value,
        advantage=advantage,
        normalized=normalized,
    )


def _without_own(mean: np.ndarray, returns: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(S,) float64, the mean over the other steps; a step alone keeps its own return."""
    return np.where(size > 1, (mean * size - returns) / np.maximum(size - 1, 1), returns)


def final_value(
    table: StepTable, config: CreditConfig, anchors: Anchors, state_value: np.ndarray
) -> np.ndarray:
    """(T,) float64, V after the last step: 0, but for known final states under "bootstrap"."""
    if config.truncation == "terminal":
        return np.zeros(table.num_trajectories)
    return np.where(table.truncated & (anchors.final >= 0), state_value[anchors.final], 0.0)
