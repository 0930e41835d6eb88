"""The episode term: what GRPO gives, and what GiGPO, GraphGPO and others are built around."""

from __future__ import annotations

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.columns import penalties
from gagpo.credit.groups import group_numbers, standardize
from gagpo.table import StepTable


def episode_return(table: StepTable, reward: np.ndarray) -> np.ndarray:
    """(T,) float64, the undiscounted sum of each trajectory's rewards."""
    return np.add.reduceat(reward, table.offsets[:-1])


def episode_terms(
    table: StepTable, config: CreditConfig, reward: np.ndarray, returns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """GRPO's advantage before and after division, both (S,) float64.

    Steps weigh 1 / T_i, so that means over the steps are means over trajectories.
    """
    group = group_numbers(table)[table.trajectory]
    weight = (1.0 / table.lengths)[table.trajectory]
    score = episode_return(table, reward)[table.trajectory]
    score = score - penalties(table, config, "after_discounting")
    mean = np.bincount(group, weight * score) / np.bincount(group, weight)
    advantage = score - mean[group]
    if config.normalize == "none":
        return advantage, advantage
    where = group if config.normalize == "group" else np.zeros_like(group)
    return advantage, standardize(score, where, scale=returns, weight=weight)
