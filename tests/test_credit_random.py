"""Random tables: the fast estimators against the slow references, and what must not matter."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import reference_credit

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.credit.sums import BLOCK, discounted_sums, reverse_scan
from gagpo.table import Credit, StepTable

COLUMNS = [f.name for f in fields(Credit) if f.name != "anchor"]


@st.composite
def tables(draw) -> StepTable:
    """Few states, so that they are shared; group and state numbers with gaps, groups interleaved."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    num, total = len(lengths), sum(lengths)

    def column(values, size):
        return draw(st.lists(values, min_size=size, max_size=size))

    state = st.sampled_from([-7, 0, 3, 10**6])
    return StepTable(
        offsets=np.cumsum([0, *lengths]),
        group=np.array(column(st.sampled_from([5, -2, 10**9]), num)),
        truncated=np.array(column(st.booleans(), num)),
        success=np.array(column(st.booleans(), num)),
        reward=np.array(column(st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.1, 10.0]), total)),
        state=np.array(column(state, total)),
        final_state=np.array(column(state, num)),
        valid=np.array(column(st.booleans(), total)),
        critic_value=np.array(column(st.sampled_from([0.0, 0.5, -3.0, 9.0]), total)),
        critic_final=np.array(column(st.sampled_from([0.0, 2.0]), num)),
    )


configs = st.builds(
    CreditConfig,
    estimator=st.sampled_from(sorted(ESTIMATORS)),
    gamma=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    lam=st.sampled_from([0.0, 0.5, 0.8, 1.0]),
    normalize=st.sampled_from(["group", "batch", "none"]),
    own_return=st.sampled_from(["included", "left_out"]),
    truncation=st.sampled_from(["terminal", "bootstrap"]),
    invalid_penalty=st.sampled_from([0.0, 0.1, 1.0]),
    penalty_rule=st.sampled_from(["reward", "after_discounting", "after_normalization"]),
    omega=st.sampled_from([0.0, 0.5, 1.0]),
    episode_term=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    hgpo_history=st.integers(0, 3),
    hgpo_alpha=st.sampled_from([0.0, 1.0, 2.5]),
    goal_worth=st.sampled_from([0.0, 1.0, 10.0]),
)


@settings(max_examples=400, deadline=None)
@given(tables(), configs)
def test_every_estimator_equals_its_slow_reference(table, config):
    credit = assign_credit(table, config)
    for name, expected in reference_credit(table, config).items():
        # Only a division by sigma + 1e-8 can blow rounding up.
        atol = 1e-8 if name == "normalized" else 1e-13
        np.testing.assert_allclose(getattr(credit, name), expected, 1e-10, atol, err_msg=name)
    place = list(zip(np.repeat(table.group, table.lengths), table.state, strict=True))
    same_place = [[a == b for b in place] for a in place]
    np.testing.assert_array_equal(credit.anchor[:, None] == credit.anchor[None, :], same_place)


@settings(max_examples=150, deadline=None)
@given(tables(), configs, st.randoms(use_true_random=False))
def test_order_of_trajectories_and_names_of_groups_and_states_do_not_matter(table, config, random):
    order = list(range(table.num_trajectories))
    random.shuffle(order)
    rows = np.concatenate([np.arange(table.offsets[i], table.offsets[i + 1]) for i in order])
    groups, states = (
        dict(zip(seen, random.sample(range(-99, 99), len(seen)), strict=True))
        for seen in (np.unique(table.group), np.unique([*table.state, *table.final_state]))
    )
    other = StepTable(
        offsets=np.cumsum([0, *table.lengths[order]]),
        group=np.array([groups[g] for g in table.group[order]]),
        truncated=table.truncated[order],
        success=table.success[order],
        reward=table.reward[rows],
        state=np.array([states[s] for s in table.state[rows]]),
        final_state=np.array([states[s] for s in table.final_state[order]]),
        valid=table.valid[rows],
        critic_value=table.critic_value[rows],
        critic_final=table.critic_final[order],
    )
    before, after = assign_credit(table, config), assign_credit(other, config)
    for name in COLUMNS:
        np.testing.assert_allclose(
            getattr(after, name), getattr(before, name)[rows], 1e-10, 1e-8, err_msg=name
        )


@settings(max_examples=100, deadline=None)
@given(tables(), tables(), configs)
def test_a_group_does_not_hear_of_other_groups(table, stranger, config):
    """All but batch normalisation: credit is the same with and without another group's rows."""
    config = replace(config, normalize="none" if config.normalize == "batch" else config.normalize)
    both = StepTable(
        offsets=np.concatenate([table.offsets, table.num_steps + stranger.offsets[1:]]),
        group=np.concatenate([table.group, stranger.group + 77]),
        **{
            name: np.concatenate([getattr(table, name), getattr(stranger, name)])
            for name in [f.name for f in fields(StepTable) if f.name not in ("offsets", "group")]
        },
    )
    alone, together = assign_credit(table, config), assign_credit(both, config)
    for name in COLUMNS:
        np.testing.assert_allclose(
            getattr(together, name)[: table.num_steps], getattr(alone, name), 1e-10, 1e-8, err_msg=name
        )


def scan_by_loop(values, decay):
    result, following = np.zeros(len(values)), 0.0
    for t in reversed(range(len(values))):
        result[t] = following = values[t] + decay[t] * following
    return result


@pytest.mark.parametrize("num", [1, 2, BLOCK, BLOCK + 1, BLOCK**2, BLOCK**2 + 1, 40_000])
def test_the_blocked_scan_equals_the_loop_at_every_depth(num):
    rng = np.random.default_rng(num)
    values, decay = rng.random(num) + 0.1, rng.random(num)
    decay[rng.random(num) < 0.01] = 0.0
    decay[rng.random(num) < 0.5] = 1.0
    np.testing.assert_allclose(reverse_scan(values, decay), scan_by_loop(values, decay), 1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.05, 0.5, 0.95, 0.9999, 1.0])
def test_discounted_sums_of_very_long_trajectories_are_exact(gamma):
    """No power of gamma is divided by: 0.05^15500 is far below what a float can hold."""
    lengths = [15_500, 1, 3, 15_500, 64]
    rng = np.random.default_rng(0)
    total = sum(lengths)
    table = StepTable(
        offsets=np.cumsum([0, *lengths]),
        group=np.zeros(5, int),
        truncated=np.zeros(5, bool),
        success=np.zeros(5, bool),
        reward=rng.random(total),
        state=np.arange(total),
        final_state=np.zeros(5, int),
        valid=np.ones(total, bool),
    )
    decay = np.full(total, gamma)
    decay[table.offsets[1:] - 1] = 0
    np.testing.assert_allclose(
        discounted_sums(table, table.reward, gamma), scan_by_loop(table.reward, decay), 1e-12
    )


def test_state_numbers_too_sparse_for_one_key_are_told_apart():
    huge = np.iinfo(np.int64)
    table = StepTable(
        offsets=np.array([0, 2, 4]),
        group=np.array([huge.min, huge.max]),
        truncated=np.zeros(2, bool),
        success=np.zeros(2, bool),
        reward=np.array([1.0, 2.0, 4.0, 8.0]),
        state=np.array([huge.min, huge.max, huge.min, huge.min]),
        final_state=np.array([0, 0]),
        valid=np.ones(4, bool),
    )
    credit = assign_credit(table, CreditConfig(gamma=0))
    assert credit.anchor_size.tolist() == [1, 1, 2, 2]
    assert credit.value.tolist() == [1, 2, 6, 6]


def test_unknown_estimators_and_empty_tables_are_refused():
    none = np.zeros(0)
    flags, numbers = none.astype(bool), none.astype(np.int64)
    empty = StepTable(np.array([0]), numbers, flags, flags, none, numbers, numbers, flags)
    with pytest.raises(ValueError, match="no steps"):
        assign_credit(empty, CreditConfig())
    with pytest.raises(ValueError, match=r"estimator: 'gagqo'.*did you mean 'gagpo'"):
        assign_credit(empty, CreditConfig(estimator="gagqo"))
