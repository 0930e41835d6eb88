"""Clusters of texts against a slow reference, and what must not change them."""

from __future__ import annotations

import time
from functools import cache
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo import similar
from gagpo.config import CreditConfig
from gagpo.similar import cluster_names, tokens
from gagpo.state_keys import keyed_table
from gagpo.table import Outcome, Step, Trajectory

texts = st.lists(st.text("aAb 1.", max_size=7), max_size=12)
thresholds = st.sampled_from([0.0, 0.3, 0.5, 2 / 3, 0.75, 0.8, 0.9, 1.0])


@cache
def edits(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Levenshtein's distance as its definition says it."""
    if not a or not b:
        return len(a) + len(b)
    return min(edits(a[1:], b) + 1, edits(a, b[1:]) + 1, edits(a[1:], b[1:]) + (a[0] != b[0]))


def slow_clusters(texts: list[str], threshold: float) -> set[frozenset[str]]:
    """Sets are joined until no two of them are linked."""
    clusters = {frozenset([text]) for text in texts}

    def linked(a: str, b: str) -> bool:
        a, b = tokens(a), tokens(b)
        longest = max(len(a), len(b), 1)
        return (longest - edits(a, b)) / longest >= threshold

    while True:
        pair = next(
            (
                (x, y)
                for x in clusters
                for y in clusters
                if x != y and any(linked(a, b) for a in x for b in y)
            ),
            None,
        )
        if pair is None:
            return clusters
        clusters = (clusters - set(pair)) | {pair[0] | pair[1]}


def as_sets(names: dict[str, str]) -> set[frozenset[str]]:
    return {frozenset(t for t in names if names[t] == name) for name in names.values()}


@settings(max_examples=300, deadline=None)
@given(texts, thresholds, st.sampled_from([(256, 2**20), (2, 1), (3, 20)]))
def test_clusters_equal_the_slow_reference_whatever_the_blocks(texts, threshold, blocks):
    with mock.patch.multiple(similar, BLOCK_ROWS=blocks[0], BLOCK_CELLS=blocks[1]):
        names = cluster_names(texts, threshold)
    assert as_sets(names) == slow_clusters(texts, threshold)
    for name, cluster in ((names[next(iter(c))], c) for c in as_sets(names)):
        assert name == min(cluster)


@settings(max_examples=200, deadline=None)
@given(st.data(), texts, thresholds)
def test_order_and_repetition_of_texts_change_nothing(data, texts, threshold):
    other = data.draw(st.permutations(texts + texts[:3]))
    assert cluster_names(other, threshold) == cluster_names(texts, threshold)


@settings(max_examples=200, deadline=None)
@given(texts, thresholds, thresholds)
def test_a_higher_threshold_refines(texts, one, other):
    fine, coarse = (cluster_names(texts, t) for t in (max(one, other), min(one, other)))
    for a in fine:
        for b in fine:
            assert fine[a] != fine[b] or coarse[a] == coarse[b]


def test_links_by_hand():
    """Ten tokens: one replaced is a similarity of 0.9, which 0.9 reaches and 0.91 does not."""
    texts = ["go to the red shelf and take the mug 1", "go to the red shelf and take the mug 2"]
    assert len(tokens(texts[0])) == 10
    assert set(cluster_names(texts, 0.9).values()) == {texts[0]}
    assert len(set(cluster_names(texts, 0.91).values())) == 2
    # Equal tokens in another order are not alike: 2 of 3 are replaced.
    assert len(set(cluster_names(["east: ice", "ice: east"], 0.4).values())) == 2
    assert len(set(cluster_names(["east: ice", "ice: east"], 1 / 3).values())) == 1
    # A chain: the ends share one token of three.
    assert set(cluster_names(["a b c", "a b d", "a e d"], 2 / 3).values()) == {"a b c"}
    assert cluster_names(["A  b", "a b"], 1.0) == {"A  b": "A  b", "a b": "A  b"}
    assert cluster_names([], 0.5) == {}
    with pytest.raises(ValueError, match=r"threshold: 1\.5; expected between 0 and 1"):
        cluster_names(["a"], 1.5)


def trajectory(task: str, observations: list[str]) -> Trajectory:
    steps = tuple(Step(o, "k", (), "a", (1,), (2,), (-0.5,), 0.0, True) for o in observations[:-1])
    return Trajectory(task, 0, 0, steps, Outcome.TERMINATED, False, "goal", observations[-1], "k")


episodes = st.lists(
    st.tuples(st.sampled_from("xyz"), st.lists(st.text("ab ", max_size=5), min_size=2, max_size=4)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(st.data(), episodes, thresholds)
def test_the_order_of_trajectories_does_not_change_which_states_are_equal(data, episodes, threshold):
    """And neither do other tasks: a state's equals are those of its task alone."""
    config = CreditConfig(state_key="similar", key_similarity=threshold)
    order = data.draw(st.permutations(range(len(episodes))))
    played = [trajectory(*episode) for episode in episodes]
    table = keyed_table(played, config)
    shuffled = keyed_table([played[i] for i in order], config)
    rows = np.concatenate([np.arange(table.offsets[i], table.offsets[i + 1]) for i in order])
    before = table.state[rows]
    np.testing.assert_array_equal(before[:, None] == before, shuffled.state[:, None] == shuffled.state)
    final = table.final_state[order]
    np.testing.assert_array_equal(before[:, None] == final, shuffled.state[:, None] == shuffled.final_state)
    task = played[0].task_id
    alone = keyed_table([t for t in played if t.task_id == task], config).state
    mine = table.state[np.array([t.task_id == task for t in played])[table.trajectory]]
    np.testing.assert_array_equal(mine[:, None] == mine, alone[:, None] == alone)


def test_many_rows_of_few_texts_cost_what_the_texts_cost():
    """60,000 rows in 40 tasks of some 60 texts each: a comparison of rows would take hours."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(20)]
    played = []
    for task in range(40):
        seen = [" ".join(rng.choice(words, 20)) for _ in range(60)]
        played += [trajectory(str(task), list(rng.choice(seen, 251))) for _ in range(6)]
    start = time.perf_counter()
    table = keyed_table(played, CreditConfig(state_key="similar"))
    assert table.num_steps == 60_000 and time.perf_counter() - start < 10
