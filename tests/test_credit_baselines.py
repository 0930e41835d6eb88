"""GiGPO, GRPO, RLOO and REINFORCE: numbers worked by hand and the ties between them."""

from __future__ import annotations

import numpy as np
import pytest
from references import Played, table_of

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.table import StepTable

# Returns 1 and 0 over one and over nine steps: a mean over steps would be 0.1, not 0.5.
UNEQUAL = table_of(Played(0, "a", [1]), Played(0, "abababcba", [0] * 9))
THREE = table_of(Played(0, "ab", [1, 2]), Played(0, "a", [6]), Played(0, "c", [0]), Played(1, "ab", [4, 4]))


def credit_of(table: StepTable, estimator: str, **options):
    return assign_credit(table, CreditConfig(estimator=estimator, **options))


def test_grpo_counts_each_trajectory_once():
    credit = credit_of(UNEQUAL, "grpo")
    assert credit.advantage.tolist() == pytest.approx([0.5] + [-0.5] * 9, rel=1e-14)
    np.testing.assert_allclose(credit.normalized, [1] + [-1] * 9, rtol=1e-7)
    np.testing.assert_allclose(credit.value, 0.5, rtol=1e-14)


def test_grpo_by_hand():
    """R = 3, 6, 0 in group 0: mean 3, sigma sqrt(6). Group 1 is alone: 0. gamma plays no part."""
    credit = credit_of(THREE, "grpo", gamma=0.5)
    scale = np.sqrt(6) + 1e-8
    np.testing.assert_allclose(credit.normalized, [0, 0, 3 / scale, -3 / scale, 0, 0], atol=1e-14)
    np.testing.assert_allclose(credit.value, [3, 3, 3, 3, 8, 8], rtol=1e-14)
    np.testing.assert_allclose(credit.next_value, [3, 0, 0, 0, 8, 0], rtol=1e-14)
    np.testing.assert_allclose(credit.td_error, [1 + 1.5 - 3, -1, 3, -3, 4 + 4 - 8, -4], atol=1e-14)
    none = credit_of(THREE, "grpo", normalize="none")
    np.testing.assert_allclose(none.normalized, [0, 0, 3, -3, 0, 0], atol=1e-14)


def test_grpo_normalised_over_the_batch_counts_trajectories_of_all_groups():
    """R = 3, 6, 0, 8: mean 4.25."""
    credit = credit_of(THREE, "grpo", normalize="batch")
    scores = np.array([3, 3, 6, 0, 8, 8])
    sigma = np.std([3, 6, 0, 8])
    np.testing.assert_allclose(credit.normalized, (scores - 4.25) / (sigma + 1e-8), rtol=1e-12)


def test_rloo_by_hand_and_never_normalised():
    """The others' means: of 6 and 0, of 3 and 0, of 3 and 6. Group 1 is alone."""
    credit = credit_of(THREE, "rloo", normalize="group")
    assert credit.value.tolist() == [3, 3, 1.5, 4.5, 8, 8]
    assert credit.normalized.tolist() == credit.advantage.tolist() == [0, 0, 4.5, -4.5, 0, 0]


def test_rloo_is_grpo_without_division_times_k_over_k_minus_one():
    rng = np.random.default_rng(0)
    table = table_of(*(Played(0, "ab", rng.normal(size=2)) for _ in range(5)))
    rloo, grpo = credit_of(table, "rloo"), credit_of(table, "grpo", normalize="none")
    np.testing.assert_allclose(rloo.normalized, grpo.normalized * 5 / 4, rtol=1e-12)


def test_reinforce_is_the_return_to_go():
    credit = credit_of(THREE, "reinforce", gamma=0.5, normalize="none")
    assert credit.normalized.tolist() == credit.return_to_go.tolist() == [2, 2, 6, 0, 6, 4]
    assert np.all(credit.value == 0) and credit.td_error.tolist() == THREE.reward.tolist()
    scaled = credit_of(THREE, "reinforce", gamma=0.5)
    first = np.array([2, 2, 6, 0])
    np.testing.assert_allclose(
        scaled.normalized, [*(first - 2.5) / (first.std() + 1e-8), 1 / (1 + 1e-8), -1 / (1 + 1e-8)], 1e-13
    )


def test_gigpo_by_hand():
    """gamma 1/2. Anchor group a of group 0 holds R = 2 and 6 (mean 4, sigma 2); the rest stand alone."""
    credit = credit_of(THREE, "gigpo", gamma=0.5, omega=0.5)
    scale = np.sqrt(6) + 1e-8
    step = np.array([-2, 0, 2, 0, 0, 0]) / (2 + 1e-8)
    episode = np.array([0, 0, 3, -3, 0, 0]) / scale
    np.testing.assert_allclose(credit.normalized, episode + 0.5 * step, atol=1e-14)
    np.testing.assert_allclose(credit.advantage, [-1, 0, 3 + 1, -3, 0, 0], atol=1e-14)
    assert credit.value.tolist() == [4, 2, 4, 0, 6, 4]
    none = credit_of(THREE, "gigpo", gamma=0.5, omega=0.5, normalize="none")
    assert none.normalized.tolist() == none.advantage.tolist()


def test_gigpo_without_its_step_term_is_grpo():
    gigpo, grpo = credit_of(THREE, "gigpo", omega=0), credit_of(THREE, "grpo")
    assert gigpo.normalized.tolist() == grpo.normalized.tolist()


def test_gigpo_in_unnormalised_form_is_gagpo_with_lam_one_plus_the_episode_term():
    rng = np.random.default_rng(2)
    table = table_of(*(Played(0, "".join(rng.choice(list("abc"), 6)), rng.normal(size=6)) for _ in range(4)))
    options = {"normalize": "none", "gamma": 0.9}
    gigpo, grpo = credit_of(table, "gigpo", **options), credit_of(table, "grpo", **options)
    gagpo = credit_of(table, "gagpo", lam=1, **options)
    np.testing.assert_allclose(gigpo.advantage, gagpo.advantage + grpo.advantage, rtol=1e-10, atol=1e-12)


# Two failures, the second with one invalid action of two.
INVALID = table_of(Played(0, "ab", [0, 0]), Played(0, "ab", [0, 0], invalid=[1]))


@pytest.mark.parametrize(
    ("estimator", "rule", "expected"),
    [
        ("grpo", "reward", [0.2, 0.2, -0.2, -0.2]),
        # scores 0, 0, 0, -0.4, trajectories weigh alike: mean -0.1
        ("grpo", "after_discounting", [0.1, 0.1, 0.1, -0.3]),
        ("rloo", "reward", [0.4, 0.4, -0.4, -0.4]),
        ("rloo", "after_discounting", [0, 0, 0, -0.4]),
        ("reinforce", "reward", [0, 0, -0.2, -0.4]),
        ("reinforce", "after_discounting", [0, 0, 0, -0.4]),
        # episode term as GRPO, plus R - mean per state: +-0.1 in a and +-0.2 in b, or b alone
        ("gigpo", "reward", [0.3, 0.4, -0.3, -0.4]),
        ("gigpo", "after_discounting", [0.1, 0.3, 0.1, -0.5]),
    ],
)
def test_penalty_rules_without_normalisation(estimator, rule, expected):
    options = {"gamma": 0.5, "normalize": "none", "invalid_penalty": 0.4, "penalty_rule": rule}
    credit = credit_of(INVALID, estimator, **options)
    np.testing.assert_allclose(credit.normalized, expected, atol=1e-14)


@pytest.mark.parametrize("estimator", ["gigpo", "grpo", "rloo", "reinforce"])
def test_a_penalty_after_normalisation_keeps_its_own_scale(estimator):
    options = {"invalid_penalty": 0.02, "penalty_rule": "after_normalization"}
    assert credit_of(INVALID, estimator, **options).normalized.tolist() == [0, 0, 0, -0.02]
