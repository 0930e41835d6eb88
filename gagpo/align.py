"""Trajectories of one task side by side, aligned on the states that they share.

Two are aligned on a longest common subsequence of their states; each further one on that of its states
and of all the rows so far. Nothing is left to chance, and the order of the trajectories decides between
alignments that are equally long.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gagpo.table import Trajectory, recorded_state_keys


class Mark(IntEnum):
    """What the trajectories of a row have in common."""

    SAME_ACTION = 0  # several are in this state, and all of them act alike (or all end here)
    OTHER_ACTION = 1  # several are in this state, and not all act alike
    ONLY_HERE = 2  # one of them alone comes this way


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Rows of one state each, in the order in which every trajectory goes through them.

    step  (R, N) int64  the step of each of N trajectories in each row; len(steps) in the row of its final
                        state, where it takes no action; -1 where it is not in the row
    mark  (R,)   int8   a Mark
    """

    step: np.ndarray
    mark: np.ndarray


def align(
    trajectories: Sequence[Trajectory], state_names: Sequence[Sequence[Hashable]] | None = None
) -> Alignment:
    """Align trajectories of one task. `state_names[i]` has a name for the state before each step of
    trajectory i and one for its final state, as a state key gives them; by default the recorded keys."""
    if len(trajectories) < 2:
        raise ValueError(f"trajectories: {len(trajectories)}; expected two or more")
    tasks = sorted({trajectory.task_id for trajectory in trajectories})
    if len(tasks) > 1:
        raise ValueError(f"trajectories: of tasks {tasks[0]!r} and {tasks[1]!r}; expected one task")
    names = [recorded_state_keys(t) for t in trajectories] if state_names is None else list(state_names)
    expected = [len(trajectory.steps) + 1 for trajectory in trajectories]
    if [len(own) for own in names] != expected:
        raise ValueError(f"state_names: {[len(own) for own in names]} names; expected {expected}")
    rows = [(name, {0: t}) for t, name in enumerate(names[0])]
    for number, own in enumerate(names[1:], 1):
        rows = _merged(rows, own, number)
    step = np.full((len(rows), len(trajectories)), -1, np.int64)
    for row, (_, there) in enumerate(rows):
        step[row, list(there)] = list(there.values())
    return Alignment(step, np.array([_mark(there, trajectories) for _, there in rows], np.int8))


Row = tuple[Hashable, dict[int, int]]  # a state, and {trajectory: its step}


def _merged(rows: list[Row], names: Sequence[Hashable], number: int) -> list[Row]:
    """The rows with one trajectory more; what it does alone comes after what the others do there."""
    merged: list[Row] = []
    row = t = 0
    for shared_row, shared_t in [
        *common_subsequence([name for name, _ in rows], names),
        (len(rows), len(names)),
    ]:
        merged += rows[row:shared_row]
        merged += [(names[k], {number: k}) for k in range(t, shared_t)]
        if shared_row < len(rows):
            name, there = rows[shared_row]
            merged.append((name, there | {number: shared_t}))
        row, t = shared_row + 1, shared_t + 1
    return merged


def _mark(there: dict[int, int], trajectories: Sequence[Trajectory]) -> Mark:
    if len(there) == 1:
        return Mark.ONLY_HERE
    steps = [(trajectories[number].steps, t) for number, t in there.items()]
    actions = {own[t].action if t < len(own) else None for own, t in steps}
    return Mark.SAME_ACTION if len(actions) == 1 else Mark.OTHER_ACTION


def common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of places, both rising, with equal values in `one` and `other`: as many as there can be.

    With L(i, j) the length for the first i and j values, L(i, j) - L(i, j - 1) is 0 or 1. A row i is kept
    as a number whose bit j - 1 is set where it is 0, and each row comes from the one before by an
    addition whose carries run through the bits: O(n m / 64) steps, and n m bits for the way back.
    """
    place: dict[Hashable, int] = {}
    for j, value in enumerate(other):
        place[value] = place.get(value, 0) | 1 << j
    every = (1 << len(other)) - 1
    rows = [every]
    for value in one:
        level = rows[-1]
        met = level & place.get(value, 0)
        rows.append(((level + met) | (level - met)) & every)
    pairs = []
    i, j = len(one), len(other)
    while i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1  # L(i, j) = L(i, j - 1)
        elif not rows[i - 1] >> (j - 1) & 1:
            i -= 1  # both rows rise at j, so L(i, j) = L(i - 1, j)
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]
