"""GAGPO: numbers worked by hand, what it reduces to, known pathologies, and each option."""

from __future__ import annotations

import numpy as np
import pytest
from references import Played, table_of

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.table import StepTable

PLAIN = {"estimator": "gagpo", "normalize": "none"}


def random_table(seed: int = 0, num: int = 24, longest: int = 40) -> StepTable:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, num)
    total = lengths.sum()
    return StepTable(
        offsets=np.cumsum([0, *lengths]),
        group=np.repeat(np.arange(num // 8), 8),
        truncated=rng.random(num) < 0.3,
        success=rng.random(num) < 0.5,
        reward=rng.normal(size=total),
        state=rng.integers(0, 30, total),
        final_state=rng.integers(0, 30, num),
        valid=rng.random(total) < 0.9,
    )


HAND = table_of(Played(0, "ab", [0, 1]), Played(0, "ac", [0, -1]), Played(1, "b", [2]))


def test_hand_vector():
    credit = assign_credit(HAND, CreditConfig(gamma=0.5, lam=0.5))
    assert credit.return_to_go.tolist() == [0.5, 1, -0.5, -1, 2]
    assert credit.value.tolist() == [0, 1, 0, -1, 2]  # pooled over groups, b would be worth 1.5
    assert credit.next_value.tolist() == [1, 0, -1, 0, 0]
    assert credit.td_error.tolist() == [0.5, 0, -0.5, 0, 0]
    assert credit.advantage.tolist() == [0.5, 0, -0.5, 0, 0]
    assert credit.anchor_size.tolist() == [2, 1, 2, 1, 1]
    sigma = np.sqrt((0.25 + 0.25) / 4)
    expected = np.array([0.5, 0, -0.5, 0, 0]) / (sigma + 1e-8)
    np.testing.assert_allclose(credit.normalized, expected, rtol=1e-14)


def test_hand_vector_with_repeat_visits_and_lambda():
    """States a a b, rewards 0 0 4, gamma = lam = 1/2: R = 1 2 4, V(a) = 1.5, V(b) = 4."""
    credit = assign_credit(table_of(Played(0, "aab", [0, 0, 4])), CreditConfig(**PLAIN, gamma=0.5, lam=0.5))
    assert credit.return_to_go.tolist() == [1, 2, 4]
    assert credit.value.tolist() == [1.5, 1.5, 4]
    assert credit.td_error.tolist() == [0.75 - 1.5, 2 - 1.5, 0]
    assert credit.advantage.tolist() == [-0.75 + 0.25 * 0.5, 0.5, 0]


def test_lam_one_is_return_minus_value_and_lam_zero_the_td_error():
    table = random_table()
    one = assign_credit(table, CreditConfig(**PLAIN, gamma=0.9, lam=1))
    np.testing.assert_allclose(one.advantage, one.return_to_go - one.value, 1e-10, 1e-12)
    zero = assign_credit(table, CreditConfig(**PLAIN, gamma=0.9, lam=0))
    assert zero.advantage.tolist() == zero.td_error.tolist()
    assert not np.allclose(one.advantage, zero.advantage)


def test_with_values_of_zero_and_lam_one_the_advantage_is_the_return():
    """Siblings with opposite rewards on the same states make every value 0."""
    rewards = np.array([1.0, -3.0, 2.0, 0.5])
    table = table_of(Played(0, "abcd", rewards), Played(0, "abcd", -rewards))
    credit = assign_credit(table, CreditConfig(**PLAIN, gamma=0.5, lam=1))
    assert np.all(credit.value == 0)
    assert credit.advantage.tolist() == credit.return_to_go.tolist()


def test_a_trajectory_of_singletons_has_no_advantage_until_normalisation_shifts_it():
    table = table_of(Played(0, "aa", [0, 1]), Played(0, "xyz", [0, 0, 5]))
    credit = assign_credit(table, CreditConfig(gamma=0.5, lam=0))
    assert credit.advantage.tolist() == [0.5 * 0.75 - 0.75, 1 - 0.75, 0, 0, 0]
    mean, sigma = credit.advantage.mean(), credit.advantage.std()
    assert mean != 0
    np.testing.assert_allclose(credit.normalized[2:], -mean / (sigma + 1e-8), rtol=1e-14)


def test_a_singleton_gets_credit_through_a_shared_successor():
    """x and y are seen once, but both lead to s: td = gamma (V(s) - R(s))."""
    table = table_of(Played(0, "xs", [0, 1]), Played(0, "ys", [0, 0]))
    credit = assign_credit(table, CreditConfig(**PLAIN, gamma=0.5, lam=0))
    assert credit.anchor_size.tolist() == [1, 2, 1, 2]
    assert credit.td_error.tolist() == [0.5 * (0.5 - 1), 0.5, 0.5 * (0.5 - 0), -0.5]


def test_when_all_siblings_fail_every_advantage_is_exactly_zero():
    rng = np.random.default_rng(1)
    fails = [Played(0, "".join(rng.choice(list("abcd"), 9)), [0] * 9) for _ in range(8)]
    for estimator in ESTIMATORS.keys() - {"gae"}:
        credit = assign_credit(table_of(*fails), CreditConfig(estimator=estimator))
        assert np.all(credit.advantage == 0) and np.all(credit.normalized == 0), estimator


def test_when_all_succeed_only_discounting_tells_them_apart():
    short = Played(0, "ab", [0, 10], success=True)
    long = Played(0, "acab", [0, 0, 0, 10], success=True)
    same = assign_credit(table_of(short, long), CreditConfig(gamma=1))
    assert np.all(same.normalized == 0)
    credit = assign_credit(table_of(short, long), CreditConfig(gamma=0.5, lam=1))
    # R(a) = 5, 1.25, 5: the detour's first step is the bad one, the direct ones are good.
    assert credit.value[0] == 3.75
    assert credit.advantage.tolist() == [1.25, 0, -2.5, 0, 1.25, 0]


def test_rounding_is_not_taken_for_signal():
    """Eight identical successes: float32 arithmetic makes |A| = 3 of nothing; ours is 0."""
    gamma, lam, length, siblings = np.float32(0.95), np.float32(0.8), 30, 8
    returns = np.zeros(length + 1, np.float32)
    for t in reversed(range(length)):
        returns[t] = np.float32(10 if t == length - 1 else 0) + gamma * returns[t + 1]
    value = np.zeros(length + 1, np.float32)
    for t in range(length):
        value[t] = np.float32(sum([returns[t]] * siblings, np.float32(0))) / np.float32(siblings)
    advantage = np.zeros(length + 1, np.float32)
    for t in reversed(range(length)):
        reward = np.float32(10 if t == length - 1 else 0)
        advantage[t] = reward + gamma * value[t + 1] - value[t] + gamma * lam * advantage[t + 1]
    noise = advantage[:length]
    assert np.abs((noise - noise.mean()) / (noise.std() + np.float32(1e-8))).max() > 2

    states = "".join(chr(ord("A") + t) for t in range(length))
    group = [Played(0, states, [0] * 29 + [10], success=True)] * siblings
    for estimator in ESTIMATORS.keys() - {"gae", "reinforce"}:
        credit = assign_credit(table_of(*group), CreditConfig(estimator=estimator))
        assert np.all(credit.normalized == 0), estimator


@pytest.mark.parametrize("estimator", ["gagpo", "gigpo", "grpo", "hgpo", "graphgpo", "gated_bepo"])
def test_rewards_that_differ_in_order_only_are_no_signal_for_an_episode(estimator):
    """0.1 + 0.2 - 0.3 is 6e-17 in floats and -0.3 + 0.2 + 0.1 is 3e-17: both are 0."""
    one, two = Played(0, "abc", [0.1, 0.2, -0.3]), Played(0, "def", [-0.3, 0.2, 0.1])
    assert sum(one.rewards) != sum(two.rewards)
    assert np.all(assign_credit(table_of(one, two), CreditConfig(estimator=estimator)).normalized == 0)


def test_a_penalty_that_every_step_pays_is_no_signal():
    """The mean of seven times -0.1 is not quite -0.1, and no return sets the scale here."""
    group = table_of(
        Played(0, "abc", [0] * 3, invalid=[0, 1, 2]), Played(0, "abcd", [0] * 4, invalid=range(4))
    )
    config = CreditConfig(penalty_rule="after_discounting")
    assert np.all(assign_credit(group, config).normalized == 0)


@pytest.mark.parametrize("visits", [2, 3, 10])
def test_visits_shrink_a_signal_by_their_own_share_unless_it_is_left_out(visits):
    """One of n visits earns 1: R - V = 1 - 1/n with the own return in the mean, 1 without."""
    group = [Played(0, "a", [1]), *[Played(0, "a", [0])] * (visits - 1)]
    included = assign_credit(table_of(*group), CreditConfig(**PLAIN))
    assert included.advantage[0] == pytest.approx(1 - 1 / visits, rel=1e-14)
    left_out = assign_credit(table_of(*group), CreditConfig(**PLAIN, own_return="left_out"))
    assert left_out.value.tolist() == pytest.approx([0] + [1 / (visits - 1)] * (visits - 1), abs=1e-15)
    assert left_out.advantage[0] == pytest.approx(1, rel=1e-14)


def test_a_singleton_keeps_its_own_return_when_returns_are_left_out():
    credit = assign_credit(HAND, CreditConfig(**PLAIN, gamma=0.5, lam=0, own_return="left_out"))
    # V(a) is the other trajectory's return: -0.5 and 0.5; b, c and g1's b stand alone.
    assert credit.value.tolist() == [-0.5, 1, 0.5, -1, 2]
    assert credit.advantage.tolist() == [0.5 + 0.5, 0, -0.5 - 0.5, 0, 0]


CUT = [
    Played(0, "ab", [0, 1]),
    Played(0, "cd", [0, 0], final="b", truncated=True),
    Played(0, "ef", [0, 0], final="z", truncated=True),
    Played(1, "gh", [0, 0], final="b", truncated=True),
    Played(0, "ij", [0, 0], final="b"),
]


def test_bootstrap_uses_the_final_state_only_where_the_group_knows_it_and_a_limit_cut():
    credit = assign_credit(table_of(*CUT), CreditConfig(**PLAIN, gamma=0.5, lam=1, truncation="bootstrap"))
    assert credit.return_to_go.tolist() == [0.5, 1, *[0] * 8]  # the observed sums stay
    # b is known in group 0 and worth 1; z is unknown; group 1 has not seen b; i, j ended there.
    assert credit.next_value.tolist() == [1, 0, 0, 1, *[0] * 6]
    # lam = 1: R + gamma^(T - t) V(final) - V(s)
    assert credit.advantage.tolist() == [0, 0, 0.25, 0.5, *[0] * 6]
    terminal = assign_credit(table_of(*CUT), CreditConfig(**PLAIN, gamma=0.5, lam=1))
    assert terminal.next_value.tolist() == [1, *[0] * 9]
    assert np.all(terminal.advantage == 0)


def test_the_episode_term_is_grpos_at_its_weight():
    """GiGPO with lam 1 and no division is the same sum (test_credit_baselines); here with division."""
    table = random_table()
    for normalize in ("group", "batch", "none"):
        both, alone, grpo = (
            assign_credit(table, CreditConfig(normalize=normalize, **options))
            for options in ({"episode_term": 0.3}, {}, {"estimator": "grpo"})
        )
        np.testing.assert_allclose(both.advantage, alone.advantage + 0.3 * grpo.advantage, 1e-12)
        np.testing.assert_allclose(both.normalized, alone.normalized + 0.3 * grpo.normalized, 1e-12)
        assert both.value.tolist() == alone.value.tolist()


# One invalid action, at the second of three steps; the sibling does the same without it.
PENALISED = table_of(Played(0, "abc", [0, 0, 1], invalid=[1]), Played(0, "abc", [0, 0, 1]))


def test_a_penalty_in_the_reward_reaches_earlier_steps():
    config = CreditConfig(**PLAIN, gamma=0.5, lam=1, invalid_penalty=0.5, penalty_rule="reward")
    credit = assign_credit(PENALISED, config)
    assert credit.return_to_go.tolist() == [0, 0, 1, 0.25, 0.5, 1]
    assert credit.advantage.tolist() == [-0.125, -0.25, 0, 0.125, 0.25, 0]


def test_a_penalty_after_discounting_stays_at_its_step_and_is_normalised():
    config = CreditConfig(gamma=0.5, lam=1, invalid_penalty=0.5, penalty_rule="after_discounting")
    credit = assign_credit(PENALISED, config)
    assert credit.return_to_go.tolist() == [0.25, 0.5, 1] * 2
    assert credit.advantage.tolist() == [0, -0.5, 0, 0, 0, 0]
    sigma = 0.5 * np.sqrt(5) / 6
    expected = (np.array([0, -0.5, 0, 0, 0, 0]) + 0.5 / 6) / (sigma + 1e-8)
    np.testing.assert_allclose(credit.normalized, expected, rtol=1e-13)


def test_a_penalty_after_normalisation_keeps_its_own_scale():
    config = CreditConfig(gamma=0.5, lam=1, invalid_penalty=0.02, penalty_rule="after_normalization")
    credit = assign_credit(PENALISED, config)
    assert np.all(credit.advantage == 0)
    assert credit.normalized.tolist() == [0, -0.02, 0, 0, 0, 0]


def test_a_small_penalty_in_a_failing_group_is_blown_up_by_every_rule_but_the_last():
    """Why the rule exists: the size of the penalty does not matter once it is the only variance."""
    group = table_of(Played(0, "ab", [0, 0], invalid=[1]), Played(0, "ac", [0, 0]))

    def largest(rule: str) -> float:
        config = CreditConfig(invalid_penalty=1e-3, penalty_rule=rule)
        return np.abs(assign_credit(group, config).normalized).max()

    assert largest("reward") > 1 and largest("after_discounting") > 1
    assert largest("after_normalization") == 1e-3


def test_normalisation_by_group_by_batch_and_not_at_all():
    table = table_of(Played(0, "a", [1]), Played(0, "a", [0]), Played(1, "a", [10]), Played(1, "a", [0]))
    by_group = assign_credit(table, CreditConfig()).normalized
    np.testing.assert_allclose(by_group, [1, -1, 1, -1], rtol=1e-7)
    by_batch = assign_credit(table, CreditConfig(normalize="batch")).normalized
    sigma = np.sqrt((2 * 0.25 + 2 * 25) / 4)
    np.testing.assert_allclose(by_batch, np.array([0.5, -0.5, 5, -5]) / (sigma + 1e-8), rtol=1e-13)
    assert assign_credit(table, CreditConfig(normalize="none")).normalized.tolist() == [0.5, -0.5, 5, -5]


def test_normalised_groups_have_mean_zero_and_deviation_one():
    table = random_table()
    credit = assign_credit(table, CreditConfig())
    group = table.group[table.trajectory]
    for g in np.unique(group):
        assert credit.normalized[group == g].mean() == pytest.approx(0, abs=1e-12)
        assert credit.normalized[group == g].std() == pytest.approx(1, rel=1e-6)
