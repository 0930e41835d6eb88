"""Alignment: hand-made examples, and every alignment against a table filled in cell by cell."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gagpo.align import Mark, align, common_subsequence
from gagpo.table import Outcome, Step, Trajectory

SAME, OTHER, ONLY = Mark.SAME_ACTION, Mark.OTHER_ACTION, Mark.ONLY_HERE


def walked(states: str, actions: str, sibling: int = 0, task: str = "t") -> Trajectory:
    """One letter a state, the last of them final, and one letter an action."""
    steps = tuple(
        Step("", state, (), action, (), (), (), 0.0, True)
        for state, action in zip(states[:-1], actions, strict=True)
    )
    return Trajectory(task, sibling, 0, steps, Outcome.TERMINATED, True, "", "", states[-1])


def aligned(*trajectories: Trajectory) -> list[tuple]:
    found = align(trajectories)
    return [(*steps, Mark(mark)) for steps, mark in zip(found.step.tolist(), found.mark, strict=True)]


def test_two_ways_that_part_and_meet() -> None:
    assert aligned(walked("abce", "xyz"), walked("adce", "xuw")) == [
        (0, 0, SAME),  # both do x in a
        (1, -1, ONLY),  # b
        (-1, 1, ONLY),  # d
        (2, 2, OTHER),  # in c one does z, the other w
        (3, 3, SAME),  # both end in e
    ]


def test_one_that_goes_on_where_the_other_ends() -> None:
    assert aligned(walked("ab", "x"), walked("abc", "xy")) == [(0, 0, SAME), (1, 1, OTHER), (-1, 2, ONLY)]


def test_nothing_shared() -> None:
    assert aligned(walked("ab", "x"), walked("cd", "x")) == [
        (0, -1, ONLY), (1, -1, ONLY), (-1, 0, ONLY), (-1, 1, ONLY),
    ]  # fmt: skip


def test_three_share_what_two_of_them_found() -> None:
    """The third meets the second in d, where the first never is."""
    assert aligned(walked("abz", "xx"), walked("adz", "yy"), walked("dz", "y")) == [
        (0, 0, -1, OTHER), (1, -1, -1, ONLY), (-1, 1, 0, SAME), (2, 2, 1, SAME),
    ]  # fmt: skip


def test_other_names_for_states() -> None:
    one, other = walked("ab", "x"), walked("cd", "x")
    found = align([one, other], [["hall", "end"], ["hall", "end"]])
    assert found.step.tolist() == [[0, 0], [1, 1]] and found.mark.tolist() == [SAME, SAME]


def test_what_cannot_be_aligned() -> None:
    one = walked("ab", "x")
    with pytest.raises(ValueError, match="trajectories: 1; expected two or more"):
        align([one])
    with pytest.raises(ValueError, match="of tasks 't' and 'u'; expected one task"):
        align([one, walked("ab", "x", task="u")])
    with pytest.raises(ValueError, match=r"state_names: \[2, 1\] names; expected \[2, 2\]"):
        align([one, one], [["a", "b"], ["a"]])
    with pytest.raises(ValueError, match="state_names"):
        align([one, one], [["a", "b"]])


def longest(one: str, other: str) -> int:
    """The textbook's table."""
    table = np.zeros((len(one) + 1, len(other) + 1), int)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
    return int(table[-1, -1])


STATES = st.text(st.sampled_from("abc"), max_size=12)


@given(STATES, STATES)
@example("", "a")
@example("a" * 12, "a" * 5)
def test_a_common_subsequence_is_one_and_the_longest(one: str, other: str) -> None:
    pairs = common_subsequence(one, other)
    assert all(one[i] == other[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert len(pairs) == longest(one, other)
    assert pairs == common_subsequence(one, other)


@given(st.lists(st.text(st.sampled_from("abcd"), min_size=2, max_size=7), min_size=2, max_size=4), st.data())
def test_an_alignment_holds_every_step_once_in_order(walks: list[str], data) -> None:
    made = [
        walked(
            states,
            data.draw(st.text(st.sampled_from("xy"), min_size=len(states) - 1, max_size=len(states) - 1)),
        )
        for states in walks
    ]
    found = align(made)
    for number, states in enumerate(walks):
        own = found.step[:, number]
        assert own[own >= 0].tolist() == list(range(len(states)))
    for steps, mark in zip(found.step.tolist(), found.mark, strict=True):
        there = {number: t for number, t in enumerate(steps) if t >= 0}
        assert there and len({walks[number][t] for number, t in there.items()}) == 1, "a row is one state"
        acts = {made[n].steps[t].action if t < len(made[n].steps) else None for n, t in there.items()}
        expected = ONLY if len(there) == 1 else SAME if len(acts) == 1 else OTHER
        assert mark == expected
    shared = int((found.step[:, :2] >= 0).all(1).sum())
    assert shared == longest(walks[0], walks[1]), "the first two share as much as they can"


def test_long_trajectories_take_no_square_of_memory_or_time() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 50, (2, 8_000)).tolist()
    start = time.process_time()
    pairs = common_subsequence(one, other)
    assert time.process_time() - start < 5
    assert all(one[i] == other[j] for i, j in pairs) and len(pairs) > 1_000
