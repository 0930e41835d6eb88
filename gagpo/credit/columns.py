"""What every estimator starts from and ends with: rewards with their penalties, Credit columns."""

from __future__ import annotations

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.groups import Anchors, group_numbers, standardize
from gagpo.table import Credit, StepTable


def penalties(table: StepTable, config: CreditConfig, rule: str) -> np.ndarray:
    """(S,) float64, what is taken off at each step if `rule` is the configured one, else 0."""
    if config.penalty_rule != rule:
        return np.zeros(table.num_steps)
    return np.where(table.valid, 0.0, config.invalid_penalty)


def rewards(table: StepTable, config: CreditConfig) -> np.ndarray:
    """(S,) float64, r_t: the environment's reward, less the penalty under the rule "reward"."""
    return table.reward - penalties(table, config, "reward")


def following(table: StepTable, value: np.ndarray, final_value: np.ndarray) -> np.ndarray:
    """(S,) float64, the value of the next step's state; `final_value` (T,) after the last step."""
    next_value = np.append(value[1:], 0.0)
    next_value[table.offsets[1:] - 1] = final_value
    return next_value


def normalize_steps(
    table: StepTable, config: CreditConfig, values: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """`values` (S,) standardised over the steps of each group, of the table, or left alone."""
    if config.normalize == "none":
        return values
    if config.normalize == "batch":
        return standardize(values, np.zeros(table.num_steps, np.int64), scale)
    return standardize(values, group_numbers(table)[table.trajectory], scale)


def make_credit(
    table: StepTable,
    config: CreditConfig,
    anchors: Anchors,
    *,
    reward: np.ndarray,
    return_to_go: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    advantage: np.ndarray,
    normalized: np.ndarray,
) -> Credit:
    """The Credit of these columns; here the penalty rule "after_normalization" applies."""
    return Credit(
        return_to_go=return_to_go,
        anchor=anchors.index,
        anchor_size=anchors.size[anchors.index],
        value=value,
        next_value=next_value,
        td_error=reward + config.gamma * next_value - value,
        advantage=advantage,
        normalized=normalized - penalties(table, config, "after_normalization"),
    )
