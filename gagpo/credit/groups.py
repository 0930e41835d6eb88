"""Groups and anchor groups: which steps are compared with each other, and on what scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gagpo.table import StepTable

EPSILON = 1e-8
# A deviation below this share of the group's largest value is rounding, not signal: sums of
# 10^5 float64 terms are good to about 1e-11. Divided by EPSILON it would look like an advantage.
SIGMA_FLOOR = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """Anchor groups, numbered 0 ... G - 1: the steps of one group in one state.

    index  (S,) int64   the anchor group of each step
    size   (G,) int64   steps in it
    final  (T,) int64   the anchor group of a trajectory's final state; -1 where no step of its
                        group was taken in that state
    """

    index: np.ndarray
    size: np.ndarray
    final: np.ndarray

    def mean(self, values: np.ndarray) -> np.ndarray:
        """(G,) float64, the mean of `values` (S,) in each anchor group."""
        return np.bincount(self.index, values, len(self.size)) / self.size


def group_numbers(table: StepTable) -> np.ndarray:
    """(T,) int64, the groups numbered from 0 without gaps."""
    return np.unique(table.group, return_inverse=True)[1]


def number(key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As np.unique: the different values of `key` (n,) int64 in order, the number of each row's
    value among them, and how often each occurs. Counts instead of sorting where values are dense."""
    low, high = (int(key.min()), int(key.max())) if len(key) else (0, -1)
    if high - low >= 4 * len(key):
        return np.unique(key, return_inverse=True, return_counts=True)
    count = np.bincount(key - low)
    known = np.flatnonzero(count)
    return known + low, (np.cumsum(count > 0) - 1)[key - low], count[known]


def find_anchors(table: StepTable) -> Anchors:
    """Groups never share an anchor group, even where their state numbers agree."""
    group = group_numbers(table)
    states = np.concatenate([table.state, table.final_state])
    low, high = int(states.min()), int(states.max())
    if (high - low + 1) * (int(group.max()) + 1) >= 2**63:  # too sparse for the key below
        states = np.unique(states, return_inverse=True)[1]
        low, high = 0, int(states.max())
    key = np.concatenate([group[table.trajectory], group]) * (high - low + 1) + (states - low)
    step_key, final_key = np.split(key, [table.num_steps])
    known, index, size = number(step_key)
    place = np.minimum(np.searchsorted(known, final_key), len(known) - 1)
    return Anchors(index, size, np.where(known[place] == final_key, place, -1))


def standardize(
    values: np.ndarray, group: np.ndarray, scale: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """(values - mean) / (sigma + EPSILON) within each group; all (S,), the result float64.

    `group` numbers the groups from 0 without gaps. Mean and sigma (population, ddof 0) weigh the
    rows by `weight`, equally by default. `scale` holds the numbers that `values` were computed
    from: where sigma is at most SIGMA_FLOOR times the largest absolute value of either in the
    group, it is what rounding left, and the result is exactly 0.
    """

    def mean(x: np.ndarray) -> np.ndarray:
        return np.bincount(group, x if weight is None else weight * x) / np.bincount(group, weight)

    centred = values - mean(values)[group]
    sigma = np.sqrt(mean(centred**2))
    largest = np.zeros(len(sigma))
    np.maximum.at(largest, group, np.maximum(np.abs(values), np.abs(scale)))
    real = sigma > SIGMA_FLOOR * largest
    return np.where(real[group], centred / (sigma + EPSILON)[group], 0.0)
