"""HGPO, GraphGPO and Gated-BEPO: numbers worked by hand, reductions, and paths without end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import Episode, Played, table_of
from references_graph import bellman, distance, steps_of
from test_credit_random import tables

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.credit import bellman as bellman_module
from gagpo.credit import graph as graph_module
from gagpo.credit.bellman import bellman_values
from gagpo.credit.graph import branching, distances, rollout_graph
from gagpo.credit.groups import find_anchors, number
from gagpo.table import StepTable

gammas = st.sampled_from([0.0, 0.5, 0.95, 1.0])


def credit_of(table: StepTable, estimator: str, **options):
    return assign_credit(table, CreditConfig(estimator=estimator, **options))


# HGPO. Both visits of c and of d are paid 4 and 0; c is reached from a and from b, d through c.
HISTORIES = table_of(Played(0, "acd", [0, 0, 4]), Played(0, "bcd", [0, 0, 0]), Played(0, "acd", [0, 0, 0]))


def test_hgpo_by_hand():
    """gamma 1, so every step of the first trajectory has R = 4. alpha 1: weights 1/6, 2/6, 3/6.

    a: alone with its state in trajectories 0 and 2. c and d: all three, mean 4/3; with the state
    before, a c and c d: trajectories 0 and 2, and all three; with two before, a c d: 0 and 2.
    """
    options = {"gamma": 1, "normalize": "none", "hgpo_history": 2}
    credit = credit_of(HISTORIES, "hgpo", **options)
    first = [2 / 6, 8 / 3 / 6 + 2 * 2 / 6, 8 / 3 * 3 / 6 + 2 * 3 / 6]
    second = [0, -4 / 3 / 6, -4 / 3 * 3 / 6]
    third = [-2 / 6, -4 / 3 / 6 - 2 * 2 / 6, -4 / 3 * 3 / 6 - 2 * 3 / 6]
    np.testing.assert_allclose(credit.advantage, first + second + third, 1e-14, 1e-15)
    np.testing.assert_allclose(credit.value, HISTORIES_RETURNS - credit.advantage, 1e-14)
    flat = credit_of(HISTORIES, "hgpo", **options, hgpo_alpha=0)
    assert flat.advantage[2] == pytest.approx((8 / 3 + 8 / 3 + 2) / 3)


HISTORIES_RETURNS = np.array([4.0, 4, 4, 0, 0, 0, 0, 0, 0])


def test_hgpo_divides_each_level_by_its_own_sigma():
    """c d, the level of one state before: R = 4, 0, 0 with sigma sqrt(32) / 3; a c d: 4, 0, sigma 2."""
    credit = credit_of(HISTORIES, "hgpo", gamma=1, hgpo_history=2)
    sigma = np.sqrt(32) / 3
    assert credit.normalized[2] == pytest.approx(3 / 6 * (8 / 3) / sigma + 3 / 6 * 2 / 2, rel=1e-7)


def test_histories_do_not_reach_over_the_start_of_a_trajectory():
    """Rows before b hold a in all cases, but the second a belongs to another trajectory."""
    table = table_of(Played(0, "ab", [0, 6]), Played(0, "a", [0]), Played(0, "b", [0]))
    credit = credit_of(table, "hgpo", gamma=1, normalize="none", hgpo_history=1)
    np.testing.assert_allclose(credit.advantage, [3 / 3, 3 / 3, -3 / 3, -3 / 3], 1e-14)


@settings(max_examples=60, deadline=None)
@given(tables(), gammas)
def test_hgpo_without_history_is_gigpo_without_its_episode_term(table, gamma):
    gigpo = credit_of(table, "gigpo", gamma=gamma, omega=1)
    episode = credit_of(table, "grpo", gamma=gamma)
    hgpo = credit_of(table, "hgpo", gamma=gamma, hgpo_history=0)
    np.testing.assert_allclose(hgpo.normalized + episode.normalized, gigpo.normalized, 1e-12, 1e-12)
    np.testing.assert_allclose(hgpo.value, gigpo.value, 1e-12, 1e-12)


# GraphGPO. The failing trajectory 1 passes through b, from where trajectory 0 went to the goal.
DETOUR = [
    Played(0, "ab", [0, 10], final="g", success=True),
    Played(0, "acb", [0, 0, 0], final="x"),
    Played(0, "xy", [0, 0], final="y"),
    Played(1, "ab", [0, 0], final="g"),
]


def test_graphgpo_by_hand():
    """d: g 0, b 1, a 2, c 2; no path from x and y, nor from anything in group 1, which failed."""
    options = {"gamma": 0.5, "goal_worth": 8, "normalize": "none", "omega": 2}
    credit = credit_of(table_of(*DETOUR), "graphgpo", **options)
    q = np.array([4, 8, 2, 4, 0, 0, 0, 0, 0])
    value = np.array([3, 4, 3, 4, 4, 0, 0, 0, 0])
    episode = np.array([20 / 3] * 2 + [-10 / 3] * 5 + [0] * 2)
    assert credit.value.tolist() == value.tolist()
    np.testing.assert_allclose(credit.advantage, episode + 2 * (q - value), 1e-14)
    assert credit.normalized.tolist() == credit.advantage.tolist()
    scaled = credit_of(table_of(*DETOUR), "graphgpo", gamma=0.5, omega=2)
    step = np.array([1, 1, -1, 0, -1, 0, 0, 0, 0])
    sigma = np.sqrt((400 + 2 * 100) / 9 / 3)
    np.testing.assert_allclose(scaled.normalized, episode / sigma + 2 * step, 1e-7, 1e-14)


def test_graphgpo_takes_the_shortest_way_through_several_trajectories():
    """a to goal: nobody went a b g, but one went a b and another b g."""
    table = table_of(
        Played(0, "abcd", [0] * 4, final="x"),
        Played(0, "cebf", [0] * 4, final="g", success=True),
        Played(0, "b", [0], final="g", success=True),
    )
    credit = credit_of(table, "graphgpo", gamma=0.5, goal_worth=16, normalize="none", omega=1)
    far = [1, 3, None, None, 2, 1, 1, 0, 0]  # from where each step led
    score = np.array([0 if d is None else 16 * 0.5**d for d in far])
    place = [0, 1, 2, 3, 2, 4, 1, 5, 1]
    mean = [np.mean(score[np.array(place) == p]) for p in place]
    np.testing.assert_allclose(credit.value, mean, 1e-14)


def test_without_success_or_without_its_step_term_graphgpo_is_grpo():
    failures = table_of(*[replace(p, success=False) for p in DETOUR])
    for table, omega in ((failures, 1.0), (table_of(*DETOUR), 0.0)):
        graphgpo, grpo = credit_of(table, "graphgpo", omega=omega), credit_of(table, "grpo")
        assert graphgpo.normalized.tolist() == grpo.normalized.tolist()


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from([0, 3, 10**9]))
def test_distances_equal_the_slow_ones_however_wide_the_levels_are(table, narrow):
    graph = rollout_graph(table, find_anchors(table))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "NARROW", narrow)
        found = distances(graph, graph.final[table.success])
    episodes = [Episode(table, i, CreditConfig()) for i in range(table.num_trajectories)]
    row = 0
    for episode in episodes:
        edges = steps_of(episodes, episode.group)
        goals = {e.final_state for e in episodes if e.group == episode.group and e.success}
        for state in episode.states:
            far = distance(edges, state, goals)
            assert found[graph.source[row]] == (-1 if far is None else far)
            row += 1


def test_many_shortest_paths_are_walked_once(monkeypatch):
    """60 floors of two states with every step between neighbouring floors: 2^60 shortest paths."""
    up, down = "".join(chr(200 + i) for i in range(60)), "".join(chr(300 + i) for i in range(60))
    zigzag, zagzig = (
        "".join(pair[i % 2] for i, pair in enumerate(zip(*ab, strict=True)))
        for ab in ((up, down), (down, up))
    )
    walks = (up, down, zigzag, zagzig)
    table = table_of(*(Played(0, w, [0] * 60, final="g", success=True) for w in walks))
    graph = rollout_graph(table, find_anchors(table))
    for narrow in (0, 64):
        monkeypatch.setattr(graph_module, "NARROW", narrow)
        assert distances(graph, graph.final)[graph.source].tolist() == [*range(60, 0, -1)] * 4


def test_no_goal_means_no_distance():
    table = table_of(Played(0, "ab", [0, 0]))
    graph = rollout_graph(table, find_anchors(table))
    assert distances(graph, graph.final[table.success]).tolist() == [-1] * graph.num_nodes


# Gated-BEPO. c is reached from a and from b; what became of it is pooled there.
CROSSING = [Played(0, "acd", [0, 0, 8]), Played(0, "bce", [0, 0, 0]), Played(0, "a", [0], final="z")]


def test_gated_bepo_by_hand():
    """gamma 1/2: V(d) = 8, V(e) = 0, V(c) = (4 + 0) / 2 = 2, V(b) = 1, V(a) = (1 + 0) / 2.

    GAGPO has V(a) = (2 + 0) / 2 and V(b) = 0 there: it does not look across trajectories.
    a and c branch, to c and z, and to d and e.
    """
    table = table_of(*CROSSING)
    credit = credit_of(table, "gated_bepo", gamma=0.5, lam=0.5, normalize="none")
    assert credit.value.tolist() == [0.5, 2, 8, 1, 2, 0, 0.5]
    assert credit.td_error.tolist() == [0.5, 2, 0, 0, -2, 0, -0.5]
    episode = np.array([16, -8, -8]) / 3
    expected = [0.5 + 2 / 4, 2, episode[0], episode[1], -2, episode[1], -0.5]
    np.testing.assert_allclose(credit.advantage, expected, 1e-14)
    gagpo = credit_of(table, "gagpo", gamma=0.5)
    assert gagpo.value.tolist() == [1, 2, 8, 0, 2, 0, 1]


def test_gated_bepo_normalises_over_all_steps_and_only_then_chooses():
    table = table_of(*CROSSING)
    credit = credit_of(table, "gated_bepo", gamma=0.5, lam=0.5)
    temporal = np.array([1, 2, 0, -0.5, -2, 0, -0.5])
    scaled = (temporal - temporal.mean()) / temporal.std()
    grpo = credit_of(table, "grpo").normalized
    expected = np.where([1, 1, 0, 0, 1, 0, 1], scaled, grpo)
    np.testing.assert_allclose(credit.normalized, expected, 1e-7)


def test_a_step_back_to_the_same_state_is_one_successor_and_another_state_a_second():
    table = table_of(Played(0, "aab", [0, 0, 0], final="b"), Played(1, "bb", [0, 0], final="b"))
    open_gate = branching(rollout_graph(table, find_anchors(table)))
    assert open_gate[find_anchors(table).index].tolist() == [True, True, False, False, False]


def test_where_nothing_branches_gated_bepo_is_grpo():
    rng = np.random.default_rng(3)
    table = table_of(*(Played(0, "abcd", rng.normal(size=4), final="e") for _ in range(5)))
    bepo, grpo = credit_of(table, "gated_bepo"), credit_of(table, "grpo")
    assert bepo.normalized.tolist() == grpo.normalized.tolist()


def test_without_crossing_paths_bellmans_values_are_the_mean_returns():
    """A tree: every state has one state before it. So the two values agree, and so do the advantages."""
    rng = np.random.default_rng(4)
    words = ["abd", "abe", "acf", "acg", "abd"]
    table = table_of(*(Played(0, w, rng.normal(size=3), final=w[-1].upper()) for w in words))
    for options in ({"gamma": 1, "lam": 1}, {"gamma": 0.7, "lam": 0.3}):
        bepo = credit_of(table, "gated_bepo", normalize="none", **options)
        gagpo = credit_of(table, "gagpo", normalize="none", **options)
        np.testing.assert_allclose(bepo.value, gagpo.value, 1e-12)
        np.testing.assert_allclose(bepo.advantage[0::3], gagpo.advantage[0::3], 1e-12)


@settings(max_examples=100, deadline=None)
@given(tables(), gammas, st.sampled_from([0, 1, 512]))
def test_bellman_values_solve_the_equation_and_equal_elimination(table, gamma, direct):
    anchors = find_anchors(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bellman_module, "DIRECT", direct)
        value = bellman_values(table, anchors, table.reward, gamma)
    following = np.append(value[anchors.index][1:], 0)
    following[table.offsets[1:] - 1] = 0
    np.testing.assert_allclose(anchors.mean(table.reward + gamma * following), value, 1e-10, 1e-11)
    config = CreditConfig(gamma=gamma, penalty_rule="after_discounting")
    episodes = [Episode(table, i, config) for i in range(table.num_trajectories)]
    exact = [float(bellman(episodes, e.group, gamma)[s]) for e in episodes for s in e.states]
    np.testing.assert_allclose(value[anchors.index], exact, 1e-10, 1e-11)


def one_trajectory(state: np.ndarray, reward: np.ndarray) -> StepTable:
    flags = np.ones(1, bool)
    offsets = np.array([0, len(reward)])
    return StepTable(
        offsets, np.zeros(1, int), ~flags, flags, reward, state, np.array([-1]), np.ones(len(reward), bool)
    )


def test_one_very_long_path_is_exact_and_quick():
    """100,000 states, each left once: distances count down, and V is the return itself."""
    num = 100_000
    reward = np.random.default_rng(0).normal(size=num)
    table = one_trajectory(np.arange(num), reward)
    graph = rollout_graph(table, find_anchors(table))
    assert np.array_equal(distances(graph, graph.final)[graph.source], np.arange(num, 0, -1))
    for gamma in (0.9, 1.0):
        value = bellman_values(table, find_anchors(table), reward, gamma)
        returns = credit_of(table, "reinforce", gamma=gamma).return_to_go
        np.testing.assert_allclose(value, returns, 1e-9, 1e-9)


def test_values_of_a_large_group_settle_or_say_why_not(monkeypatch):
    """A walk over 40 places: by sweeps as directly; too few sweeps are refused, not returned."""
    rng = np.random.default_rng(1)
    state = np.abs(np.cumsum(rng.choice([-1, 1], 2_000))) % 40
    table = one_trajectory(state, rng.normal(size=2_000))
    anchors = find_anchors(table)
    direct = bellman_values(table, anchors, table.reward, 0.9)
    monkeypatch.setattr(bellman_module, "DIRECT", 10)
    np.testing.assert_allclose(bellman_values(table, anchors, table.reward, 0.9), direct, 1e-10, 1e-12)
    monkeypatch.setattr(bellman_module, "MAX_SWEEPS", 20)
    with pytest.raises(ValueError, match=r"gamma: .* more than 10 branches .* smaller gamma"):
        bellman_values(table, anchors, table.reward, 0.9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-5, 5) | st.integers(-(2**62), 2**62)))
def test_numbers_are_those_of_numpys_unique(values):
    key = np.array(values, np.int64)
    for ours, theirs in zip(
        number(key), np.unique(key, return_inverse=True, return_counts=True), strict=True
    ):
        assert np.array_equal(ours, theirs)
