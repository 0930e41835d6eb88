"""State values as the fixed point of Bellman's equation on the steps that were seen."""

from __future__ import annotations

import numpy as np

from gagpo.credit.groups import Anchors, group_numbers, number
from gagpo.table import StepTable

DIRECTIONS = 8  # that a round of the solver keeps; more save rounds and cost memory
MAX_ROUNDS = 2_000
SETTLED = 1e-13  # residual, as a share of the largest number in its group; one round follows


def bellman_values(table: StepTable, anchors: Anchors, reward: np.ndarray, gamma: float) -> np.ndarray:
    """V of each anchor group, (G,) float64.

        V(s) = mean over the steps from s of (r_t + gamma V(s_{t+1})),      0 after a last step

    Every trajectory ends, so there is exactly one solution, with gamma = 1 too. States that were
    always left in the same direction are eliminated first, exactly and however long their paths
    are; the others, which branch, are solved for together.
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
        value[branches] = _solve(
            (source, onward, weight), constant[branches], anchors.size[branches], group[branches]
        )
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
    edges: tuple[np.ndarray, np.ndarray, np.ndarray],
    constant: np.ndarray,
    visits: np.ndarray,
    group: np.ndarray,
) -> np.ndarray:
    """x (n,) float64 with x = constant + P x. `edges` are the rows, the columns and the entries of
    P; column n stands for the end, where x = 0. Groups share no entry and are solved side by side.

    Generalized conjugate residuals, in rounds of DIRECTIONS steps, with inner products that weigh
    each state by its visits: no state is entered more often than it is left, so P shrinks that
    norm by gamma or more, and each step shrinks every group's residual at least as well as
    putting x into the right-hand side once would.
    """
    source, target, weight = edges
    num, num_groups = len(constant), int(group.max()) + 1

    def apply(x: np.ndarray) -> np.ndarray:
        return x - np.bincount(source, weight * np.append(x, 0.0)[target], num)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.bincount(group, visits * a * b, num_groups)

    def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.divide(a, b, out=np.zeros(num_groups), where=b > 0)[group]

    x, largest, settled = constant.copy(), np.zeros(num_groups), False
    for _ in range(MAX_ROUNDS):
        rest = constant - apply(x)
        if settled:
            return x
        np.maximum.at(largest, group, np.maximum(np.abs(x), np.abs(constant)))
        settled = bool(np.all(np.abs(rest) <= SETTLED * largest[group]))
        kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for _ in range(DIRECTIONS):
            direction, image = rest, apply(rest)
            whole = product(image, image)
            for other, other_image, norm in kept:
                overlap = ratio(product(image, other_image), norm)
                direction, image = direction - overlap * other, image - overlap * other_image
            norm = product(image, image)
            norm[norm < 1e-16 * whole] = 0.0  # what rounding left: no direction
            step = ratio(product(rest, image), norm)
            x, rest = x + step * direction, rest - step * image
            kept.append((direction, image, norm))
    raise ValueError(f"gamma: the values did not settle in {MAX_ROUNDS} rounds; expected a smaller gamma")
