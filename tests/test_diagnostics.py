"""Diagnostics against numbers counted by hand, and against loops that say what is meant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import Played, table_of
from test_credit_random import configs, tables

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.diagnostics import Mismatch, Signal, diagnose

# Group 4: key a joins the true states A (rows 0, 2) and B (row 4); the true state C lies under b and c.
# Group 9 has the same letters, and is judged by itself: nothing is wrong in it.
KEYED = table_of(
    Played(4, "abca", [0, 0, 0, 1]),  # rows 0 to 3
    Played(4, "ab", [0, 0]),  # rows 4, 5
    Played(9, "ab", [0, 0]),  # rows 6, 7
)
TRUE = ["A", "C", "C", "A", "B", "C", "B", "C"]
CONFIG = CreditConfig(gamma=0.5, lam=0.5)


def test_aliasing_and_splitting_by_hand():
    found = diagnose(KEYED, assign_credit(KEYED, CONFIG), CONFIG, true_states=TRUE)
    # anchor groups: 4a {0, 3, 4}, 4b {1, 5}, 4c {2}, 9a {6}, 9b {7}
    assert found.anchor_sizes == ((1, 3), (2, 1), (3, 1))
    assert (found.num_singletons, found.singleton_share) == (3, 3 / 8)
    assert found.aliasing == Mismatch(1, 1 / 5, 3, 3 / 8, ((0, 4),))
    # true states: 4A, 4B, 4C {1, 2, 5}, 9B, 9C
    assert found.splitting == Mismatch(1, 1 / 5, 3, 3 / 8, ((1, 2),))
    # group 9 has no reward: nothing varies there
    assert (found.zero_sigma_groups, found.zero_sigma_share) == ((9,), 0.5)
    assert (found.num_steps, found.num_trajectories, found.num_groups) == (8, 3, 2)
    none = diagnose(KEYED, assign_credit(KEYED, CONFIG), CONFIG)
    assert none.aliasing is None and none.splitting is None
    few = diagnose(KEYED, assign_credit(KEYED, CONFIG), CONFIG, true_states=TRUE, num_examples=0)
    assert few.aliasing.examples == () and few.aliasing.num_classes == 1


def test_weights_by_hand():
    """3, 10 and 50 steps: by actions 3/63, 10/63, 50/63. Tokens: 2 each in the first, 1 elsewhere."""
    played = [Played(0, "a" * n, [0] * n) for n in (3, 10, 50)]
    table = table_of(*played)
    tokens = [2] * 3 + [1] * 60
    weights = diagnose(table, assign_credit(table, CONFIG), CONFIG, num_tokens=tokens).weights
    np.testing.assert_allclose(weights.action, np.array([3, 10, 50]) / 63, 1e-12)
    np.testing.assert_allclose(weights.token, np.array([6, 10, 50]) / 66, 1e-12)
    np.testing.assert_allclose(weights.trajectory, [1 / 3] * 3, 1e-12)
    assert diagnose(table, assign_credit(table, CONFIG), CONFIG).weights.token is None


# 0 fails with an invalid action; 1 differs in outcome and has one too; 2 just fails; 3 succeeds after
# one step and after two; 4 is paid alike and only one of it counts as a success.
MIXED = table_of(
    Played(0, "a", [0], invalid=[0]),
    Played(0, "a", [0]),
    Played(1, "a", [1], success=True),
    Played(1, "a", [0], invalid=[0]),
    Played(2, "a", [0]),
    Played(2, "a", [0]),
    Played(3, "a", [1], success=True),
    Played(3, "ab", [0, 1], success=True),
    Played(4, "a", [1], success=True),
    Played(4, "a", [1]),
)


def test_where_the_signal_comes_from_by_hand():
    """Groups 0 and 1: A = -1, 1. Group 3, R = 1, .5, 1: V(a) = .75, V(b) = 1, d = .25, -.25, 0; so
    A = sqrt(1.5), -sqrt(1.5), 0. Squares 2, 2, 3 of 7; absolute values 2, 2, sqrt(6)."""
    config = CreditConfig(gamma=0.5, lam=0.0)
    found = diagnose(MIXED, assign_credit(MIXED, config), config)
    total = 4 + np.sqrt(6)
    expected = {
        "outcome": Signal(2, 2 / 7, 2 / total),
        "penalty": Signal(1, 2 / 7, 2 / total),
        "other": Signal(2, 3 / 7, np.sqrt(6) / total),
    }
    for name, kind in expected.items():
        got = getattr(found.signals, name)
        assert got.num_groups == kind.num_groups, name
        assert got.squared_share == pytest.approx(kind.squared_share, abs=1e-6), name
        assert got.absolute_share == pytest.approx(kind.absolute_share, abs=1e-6), name
    assert found.zero_sigma_groups == (2, 4)


def test_a_penalty_at_its_own_scale_is_seen_as_small():
    config = CreditConfig(gamma=0.5, lam=0.0, penalty_rule="after_normalization")
    found = diagnose(MIXED, assign_credit(MIXED, config), config)
    # group 0 keeps -0.1; group 1 has 1 and -1 - 0.1
    total = 0.01 + (1 + 1.21) + 3
    assert found.signals.penalty.squared_share == pytest.approx(0.01 / total, abs=1e-6)
    assert found.zero_sigma_groups == (0, 2, 4)
    free = CreditConfig(gamma=0.5, lam=0.0, invalid_penalty=0.0)
    found = diagnose(MIXED, assign_credit(MIXED, free), free)
    assert found.signals.penalty == Signal(0, 0.0, 0.0)


def test_no_signal_at_all_has_no_shares():
    table = table_of(Played(0, "a", [0]), Played(0, "a", [0]))
    signals = diagnose(table, assign_credit(table, CONFIG), CONFIG).signals
    assert signals.other == Signal(1, 0.0, 0.0) and signals.outcome == signals.penalty == Signal(0, 0.0, 0.0)


def test_between_groups_there_is_no_penalty_in_a_group_without_one():
    """Normalised over the batch, a group that just fails has A below 0 throughout: "other"."""
    config = CreditConfig(gamma=0.5, lam=1.0, normalize="batch", estimator="reinforce")
    table = table_of(Played(0, "a", [0]), Played(0, "a", [0]), Played(1, "a", [1]), Played(1, "a", [0]))
    signals = diagnose(table, assign_credit(table, config), config).signals
    assert signals.penalty.num_groups == 0 and 0 < signals.other.squared_share < 1


def slow(table, credit, config, true):
    """Loops over steps and pairs of steps."""
    rows = range(table.num_steps)
    group = [int(table.group[i]) for i in table.trajectory]
    key = [(group[r], int(table.state[r])) for r in rows]
    state = [(group[r], true[r]) for r in rows]

    def mismatch(own, other):
        mixed = [c for c in dict.fromkeys(own) if len({other[r] for r in rows if own[r] == c}) > 1]
        examples = []
        for c in mixed:
            first = next(r for r in rows if own[r] == c)
            examples.append((first, next(r for r in rows if own[r] == c and other[r] != other[first])))
        steps = sum(own[r] in mixed for r in rows)
        return Mismatch(
            len(mixed), len(mixed) / len(set(own)), steps, steps / len(rows), tuple(examples[:10])
        )

    sums = {"outcome": [0, 0.0, 0.0], "penalty": [0, 0.0, 0.0], "other": [0, 0.0, 0.0]}
    without = assign_credit(table, CreditConfig(**{**vars_of(config), "invalid_penalty": 0.0})).advantage
    for g in sorted(set(group)):
        own = [r for r in rows if group[r] == g]
        trajectories = [i for i in range(table.num_trajectories) if table.group[i] == g]
        scores = [table.reward[table.offsets[i] : table.offsets[i + 1]].sum() for i in trajectories]
        differs = max(scores) - min(scores) > 1e-6 or len({bool(table.success[i]) for i in trajectories}) > 1
        invalid = config.invalid_penalty > 0 and not all(table.valid[own])
        silent = max(without[own]) - min(without[own]) < 1e-9
        kind = "outcome" if differs else "penalty" if invalid and silent else "other"
        a = [float(credit.normalized[r]) for r in own]
        sums[kind] = [
            x + y for x, y in zip(sums[kind], (1, sum(v * v for v in a), sum(map(abs, a))), strict=True)
        ]
    return mismatch(key, state), mismatch(state, key), sums


def vars_of(config):
    return {name: getattr(config, name) for name in type(config).__slots__}


@settings(max_examples=200, deadline=None)
@given(st.data(), tables(), configs)
def test_diagnostics_equal_the_slow_reference(data, table, config):
    size = table.num_steps
    true = data.draw(st.lists(st.sampled_from("xyz"), min_size=size, max_size=size))
    credit = assign_credit(table, config)
    found = diagnose(table, credit, config, true_states=true)
    aliasing, splitting, sums = slow(table, credit, config, true)
    assert found.aliasing == aliasing and found.splitting == splitting
    squared, absolute = (sum(s[k] for s in sums.values()) or 1.0 for k in (1, 2))
    for name, (num, own_squared, own_absolute) in sums.items():
        got = getattr(found.signals, name)
        assert got.num_groups == num
        assert got.squared_share == pytest.approx(own_squared / squared, abs=1e-9)
        assert got.absolute_share == pytest.approx(own_absolute / absolute, abs=1e-9)
    for weights in (found.weights.action, found.weights.trajectory):
        assert weights.sum() == pytest.approx(1) and len(weights) == table.num_trajectories
    assert sum(s * n for s, n in found.anchor_sizes) == size
    assert sum(n for _, n in found.anchor_sizes) == len(set(credit.anchor))


def test_columns_of_another_length_are_refused():
    credit = assign_credit(KEYED, CONFIG)
    with pytest.raises(ValueError, match="true_states: 2 rows; expected 8"):
        diagnose(KEYED, credit, CONFIG, true_states=["x", "y"])
    with pytest.raises(ValueError, match="num_tokens: 1 rows; expected 8"):
        diagnose(KEYED, credit, CONFIG, num_tokens=[1])
    with pytest.raises(ValueError, match="credit: 8 rows; expected 11"):
        diagnose(MIXED, credit, CONFIG)


def test_recorded_credit_of_a_critic_is_looked_at_without_the_critic():
    """A steps file holds the values, and no critic_value: the same signals either way."""
    config = CreditConfig("gae", gamma=0.5, truncation="bootstrap")
    table = replace(MIXED, critic_value=np.linspace(-1, 1, 11), critic_final=np.ones(MIXED.num_trajectories))
    credit = assign_credit(table, config)
    assert diagnose(MIXED, credit, config).signals == diagnose(table, credit, config).signals
