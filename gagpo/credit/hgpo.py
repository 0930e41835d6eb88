"""HGPO: steps are compared within groups that share ever longer histories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.columns import following, make_credit, penalties, rewards
from gagpo.credit.groups import find_anchors, number, standardize
from gagpo.credit.sums import discounted_sums
from gagpo.table import Credit, StepTable


def hgpo(table: StepTable, config: CreditConfig) -> Credit:
    """Hierarchy-of-Groups Policy Optimization.

        A_t = sum over k = 0 ... K of w_k A_t^k,     w_k = (k + 1)^alpha / sum over j of (j + 1)^alpha
        A_t^k = (R_t - mean) / (sigma + 1e-8)

    with K = hgpo_history, alpha = hgpo_alpha, and mean and sigma (population) over the steps of the
    task whose last k + 1 states, s_{t-k} ... s_t, are the same in the same order; every visit
    counts. There is no episode term. K = 0 gives GiGPO's step term. normalize "none" does not
    divide, "batch" is the same as "group". `advantage` is the same sum without division, and
    `value` = R_t - advantage the baseline that it amounts to.

    Our choices: a step that shares its last k + 1 states with no other step, or that has no k
    states before it, has A_t^k = 0 and keeps the weights as they are. The public code
    (verl-agent) spreads the weights over the levels whose advantage is not 0 instead, and has
    (k + 2)^alpha in them; we follow the formula. Source: arXiv 2602.22817.
    """
    anchors = find_anchors(table)
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    score = returns - penalties(table, config, "after_discounting")
    weights = np.arange(1.0, config.hgpo_history + 2) ** config.hgpo_alpha
    levels = _levels(table, anchors.index, len(weights))
    advantage, normalized = np.zeros((2, table.num_steps))
    for weight, (rows, group) in zip(weights / weights.sum(), levels, strict=True):
        values = score[rows]
        mean = np.bincount(group, values) / np.bincount(group)
        advantage[rows] += weight * (values - mean[group])
        normalized[rows] += weight * standardize(values, group, scale=returns[rows])
    value = score - advantage
    return make_credit(
        table,
        config,
        anchors,
        reward=reward,
        return_to_go=returns,
        value=value,
        next_value=following(table, value, np.zeros(table.num_trajectories)),
        advantage=advantage,
        normalized=advantage if config.normalize == "none" else normalized,
    )


def _levels(table: StepTable, anchor: np.ndarray, num_levels: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For k = 0, 1 ... num_levels - 1: the rows whose last k + 1 states occur more than once, and
    the number of each one's history among these.

    Two steps share k + 1 states if they share k and the steps before them share k, so each level
    splits the groups of the one before. Who shares nothing at one level is done with.
    """
    rows, history = np.arange(table.num_steps), anchor
    shared = np.zeros(table.num_steps, np.int64)  # 1 + number of the history, 0 for a row alone
    begins = np.zeros(table.num_steps, bool)
    begins[table.offsets[:-1]] = True
    for _ in range(num_levels):
        _, group, size = number(history)
        often = size[group] > 1
        rows, group = rows[often], number(group[often])[1]
        yield rows, group
        shared[:] = 0
        shared[rows] = group + 1
        follows = ~begins[rows] & (shared[rows - 1] > 0)
        rows, group = rows[follows], group[follows]
        history = group * (np.max(shared) + 1) + shared[rows - 1]
