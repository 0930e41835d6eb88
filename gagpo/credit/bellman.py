"""State values as the fixed point of Bellman's equation on the steps that were seen."""

from __future__ import annotations

import numpy as np

from gagpo.credit.groups import Anchors, group_numbers, number
from gagpo.table import StepTable

DIRECT = 512  # groups with no more branching states than this are solved directly
MAX_SWEEPS = 10_000
SETTLED = 1e-15  # change of a value in a sweep, as a share of the largest


def bellman_values(table: StepTable, anchors: Anchors, reward: np.ndarray, gamma: float) -> np.ndarray:
    """V of each anchor group, (G,) float64.

        V(s) = mean over the steps from s of (r_t + gamma V(s_{t+1})),      0 after a last step

    Every trajectory ends, so there is exactly one solution, with gamma = 1 too. States that were
    always left in the same direction are eliminated first, exactly and however long their paths
    are; the others, which branch, as linear equations: directly, or by repeated sweeps in groups
    where too many states branch for that.
    """
    num = end = len(anchors.size)  # "end" is what follows a last step: one more state, worth 0
    target = np.append(anchors.index[1:], end)
    target[table.offsets[1:] - 1] = end
    least, most = np.full(num, end), np.full(num, -1)
    np.minimum.at(least, anchors.index, target)
    np.maximum.at(most, anchors.index, target)
    branches = np.flatnonzero(least < most)
    mean_reward = anchors.mean(reward)
    root, shift, factor = _roots(least, mean_reward, gamma, branches)
    value = np.zeros(num + 1)
    if len(branches):
        # A step from a branching state counts as one to the root of the state that it leads to.
        rows = np.flatnonzero(least[anchors.index] < most[anchors.index])
        source, onward = anchors.index[rows], target[rows]
        share = gamma / anchors.size[source]
        constant = mean_reward + np.bincount(source, share * shift[onward], num)
        name = np.zeros(num + 1, np.int64)
        name[branches] = np.arange(len(branches))
        name[end] = len(branches)
        edge, parallel, _ = number(name[source] * (len(branches) + 1) + name[root[onward]])
        weight = np.bincount(parallel, share * factor[onward])
        source, onward = np.divmod(edge, len(branches) + 1)
        group = np.zeros(num, np.int64)
        group[anchors.index] = group_numbers(table)[table.trajectory]
        value[branches] = _solve((source, onward, weight), constant[branches], group[branches])
    return (shift + factor * value[root])[:num]


def _roots(
    target: np.ndarray, reward: np.ndarray, gamma: float, branches: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """root, shift and factor, each (num + 1,), with V(s) = shift + factor V(root).

    `target` is where the steps from a state lead, if it is not in `branches`. Roots are the
    branching states, their own ones, and the end. Each pass doubles the steps that are followed.
    """
    num = len(target)
    root, shift, factor = np.append(target, num), np.append(reward, 0.0), np.full(num + 1, gamma)
    root[branches], shift[branches], factor[branches] = branches, 0.0, 1.0
    is_root = root == np.arange(num + 1)  # a state that always leads to itself would never end
    moving = np.flatnonzero(~is_root[root])
    while len(moving):
        onward = root[moving]
        shift[moving] += factor[moving] * shift[onward]
        factor[moving] *= factor[onward]
        root[moving] = root[onward]
        moving = moving[~is_root[root[moving]]]
    return root, shift, factor


def _solve(
    edges: tuple[np.ndarray, np.ndarray, np.ndarray], constant: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """x (n,) float64 with x = constant + P x. `edges` are the rows, the columns and the entries of
    P; column n stands for the end, where x = 0. Groups share no entry."""
    source, target, weight = edges
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    first = np.cumsum(size) - size
    place = np.zeros(len(constant) + 1, np.int64)  # within the group
    place[order] = np.arange(len(constant)) - first[group[order]]
    x = np.zeros(len(constant))
    inner = np.flatnonzero(target < len(constant))
    inner = inner[np.argsort(group[source[inner]], kind="stable")]
    bounds = np.searchsorted(group[source[inner]], np.arange(len(size) + 1))
    for g in np.flatnonzero((size > 0) & (size <= DIRECT)):
        own, part = order[first[g] : first[g] + size[g]], inner[bounds[g] : bounds[g + 1]]
        matrix = np.eye(size[g])
        matrix[place[source[part]], place[target[part]]] -= weight[part]
        x[own] = np.linalg.solve(matrix, constant[own])
    if size.max() > DIRECT:
        large = size[group[source]] > DIRECT
        wide = np.flatnonzero(size[group] > DIRECT)
        x[wide] = _iterate(source[large], target[large], weight[large], constant)[wide]
    return x


def _iterate(source: np.ndarray, target: np.ndarray, weight: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """The same x where `source` has rows, by putting x into the right-hand side until it stays."""
    x = np.append(constant, 0.0)
    for _ in range(MAX_SWEEPS):
        last = x
        x = np.append(constant + np.bincount(source, weight * x[target], len(constant)), 0.0)
        if np.all(np.abs(x - last) <= SETTLED * np.maximum(np.abs(x), np.abs(constant).max())):
            return x[:-1]
    raise ValueError(
        f"gamma: states of one group with more than {DIRECT} branches did not settle within "
        f"{MAX_SWEEPS} sweeps; expected a smaller gamma"
    )
