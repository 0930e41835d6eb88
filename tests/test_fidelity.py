"""Measures of fidelity: numbers by hand, slow references, and what must not change them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagpo.fidelity import (
    correlation,
    cosine,
    interval,
    pair_errors,
    policy_gradient,
    sign_agreement,
    top_precision,
)

MEASURES = (correlation, cosine, sign_agreement, top_precision)
whole = st.integers(-3, 3).map(float)
columns = st.lists(st.tuples(whole, whole), min_size=1, max_size=6).map(lambda rows: np.array(rows).T)


def test_correlation_and_cosine_by_hand():
    """(1, 2, 4) less 7/3 is (-4, -1, 5) / 3; times (-1, 0, 1) that is 3; lengths sqrt(42) / 3 and sqrt 2."""
    estimate, truth = np.array([1.0, 2, 4]), np.array([1.0, 2, 3])
    assert correlation(estimate, truth) == pytest.approx(3 / (np.sqrt(42) / 3 * np.sqrt(2)), abs=1e-14)
    assert cosine(estimate, truth) == pytest.approx(17 / np.sqrt(21 * 14), abs=1e-14)
    assert correlation(-estimate, truth) == -correlation(estimate, truth)


def test_what_holds_no_signal_scores_nothing_and_no_truth_gives_no_number():
    truth, flat = np.array([1.0, -2, 3]), np.array([0.3, 0.1 + 0.2, 0.3])
    assert correlation(flat, truth) == 0 == cosine(np.zeros(3), truth), "rounding is no variation"
    assert np.isnan(correlation(truth, flat)) and np.isnan(cosine(truth, np.zeros(3)))
    assert np.isnan(sign_agreement(truth, np.zeros(3))) and np.isnan(top_precision(truth, np.zeros(3)))
    assert sign_agreement(np.zeros(3), truth) == 0.5


def test_signs_by_hand():
    """Right, wrong, left out, silent, right: (1 + 0 + 1/2 + 1) / 4."""
    truth = np.array([2.0, -1, 1e-12, 3, -2])
    assert sign_agreement(np.array([5.0, 1, -1, 0, -1]), truth) == 2.5 / 4
    assert sign_agreement(np.array([5.0, 1, -1, 1e-12, -1]), truth) == 2.5 / 4, "rounding is silence"


def test_top_precision_by_hand():
    """20 steps, so two places. True: steps 0 and 1, and 2 that ties with 1. One sign is wrong on purpose."""
    truth = np.array([9.0, -5, 5, *([1.0] * 17)])
    said = np.zeros(20)
    said[[0, 3]] = -7, 7
    assert top_precision(said, truth) == 1 / 2, "step 0 is in, step 3 is not"
    said[2] = 7
    assert top_precision(said, truth) == 2 / 3, "three share two places, two of them are in"
    assert top_precision(np.ones(20), truth) == pytest.approx(3 / 20), "each step has a tenth of a place"
    assert top_precision(said, truth, share=1.0) == 1


@given(columns, st.sampled_from([0.2, 0.5, 0.9]))
def test_ties_are_the_mean_over_every_order(both, share):
    estimate, truth = np.abs(both)
    if not truth.any():
        return
    num = int(np.ceil(share * len(truth)))
    decisive = truth >= np.sort(truth)[-num]
    orders = [sorted(order, key=lambda i: -estimate[i])[:num] for order in permutations(range(len(truth)))]
    expected = np.mean([decisive[order].mean() for order in orders])
    assert top_precision(*both, share=share) == pytest.approx(expected, abs=1e-12)


@given(columns, st.randoms(use_true_random=False), st.sampled_from([0.125, 3.0, 1e6]))
def test_neither_order_nor_scale_matters(both, random, scale):
    order = list(range(both.shape[1]))
    random.shuffle(order)
    for measure in MEASURES:
        expected = measure(*both)
        assert measure(scale * both[0][order], both[1][order]) == pytest.approx(
            expected, abs=1e-12, nan_ok=True
        )


@given(columns)
def test_the_truth_agrees_with_itself(both):
    truth = both[1]
    if truth.any():
        assert cosine(truth, truth) == pytest.approx(1) and sign_agreement(truth, truth) == 1
        assert top_precision(truth, truth) == pytest.approx(1)
    if np.ptp(truth):
        assert correlation(truth, truth) == pytest.approx(1)


def test_a_batch_has_the_gradient_of_its_weighed_log_probabilities():
    """Against central differences of sum x_t log softmax(logits)."""
    rng = np.random.default_rng(0)
    pair_state = np.array([0, 0, 1, 2, 2, 2])
    logits, pair, x = rng.normal(size=6), rng.integers(0, 6, 20), rng.normal(size=20)

    def chance(logits: np.ndarray) -> np.ndarray:
        weights = np.exp(logits)
        return weights / np.bincount(pair_state, weights)[pair_state]

    def objective(logits: np.ndarray) -> float:
        return float(x @ np.log(chance(logits))[pair])

    found = policy_gradient(x, pair, chance(logits), pair_state)
    for p, step in enumerate(1e-6 * np.eye(6)):
        slope = (objective(logits + step) - objective(logits - step)) / 2e-6
        assert found[p] == pytest.approx(slope, abs=1e-8)
    assert found[2] == pytest.approx(0, abs=1e-12), "where there is one command, there is nothing to learn"


def test_intervals_of_batches():
    assert interval([2.0, 2.0, np.nan]) == (2.0, 2.0, 2.0)
    assert np.isnan(interval([2.0, np.nan])).all()
    values = np.random.default_rng(0).normal(size=400)
    found = interval(values, seed=1)
    assert found == interval(values, seed=1) != interval(values, seed=2)
    assert found.mean == pytest.approx(values.mean())
    np.testing.assert_allclose(
        [found.low, found.high], values.mean() + np.array([-1.96, 1.96]) * values.std() / 20, atol=0.01
    )


def simulated(rng, m, noise, num_batches=200, per_batch=12):
    """Estimates around m[pair], whose noise is shared by the steps of a batch half and half."""
    pair = rng.integers(0, len(m), num_batches * per_batch)
    batch = np.repeat(np.arange(num_batches), per_batch)
    common = rng.normal(size=(num_batches, len(m)))[batch, pair]
    x = m[pair] + noise * (common + rng.normal(size=len(pair))) / np.sqrt(2)
    return x, pair, batch


def test_bias_and_spread_are_told_apart():
    """True A = (1, -1, 2, 0) and m = 3 (A + (0, 1, 0, 0)): what scaling leaves is worked out below."""
    a = np.array([1.0, -1, 2, 0])
    m = 3 * (a + np.array([0.0, 1, 0, 0]))  # (3, 0, 6, 0)
    x, pair, batch = simulated(np.random.default_rng(0), m, 1.5)
    found = pair_errors(x, a[pair], pair, batch)
    # Equal weights: sum m A = 15, sum m^2 = 45, so c = 1/3 and c m = (1, 0, 2, 0), off by 1 in one of 4.
    rms = np.sqrt(6 / 4)
    assert found.scale == pytest.approx(1 / 3, abs=0.02)
    assert found.bias.mean == pytest.approx(np.sqrt(1 / 4) / rms, abs=0.03)
    assert found.spread.mean == pytest.approx(1.5 / 3 / rms, abs=0.03)
    assert found.raw_bias.mean == pytest.approx(np.sqrt(np.mean((m - a) ** 2)) / rms, abs=0.1)
    assert found.raw_spread.mean == pytest.approx(1.5 / rms, abs=0.05)
    for estimate in (found.bias, found.spread, found.raw_bias, found.raw_spread):
        assert estimate.low < estimate.mean < estimate.high < estimate.low + 0.5
    assert found == pair_errors(x, a[pair], pair, batch)
    order = np.random.default_rng(1).permutation(len(x))
    again = pair_errors(x[order], a[pair][order], 7 * pair[order] - 3, batch[order])
    assert again.bias == pytest.approx(found.bias) and again.spread == pytest.approx(found.spread)


def test_noise_is_not_taken_for_bias():
    """Ten batches of much noise: the plain mean would be off by 3 / sqrt(10) of the true size."""
    a = np.where(np.arange(400) % 2, 1.0, -1.0)
    x, pair, batch = simulated(np.random.default_rng(2), a, 3.0, num_batches=10, per_batch=800)
    found = pair_errors(x, a[pair], pair, batch)
    assert found.raw_bias.mean < 0.35 < 3 / np.sqrt(10)
    assert found.raw_spread.mean == pytest.approx(3, abs=0.1) and found.scale == pytest.approx(1, abs=0.1)


def test_the_truth_has_neither_bias_nor_spread():
    a = np.array([1.0, -2, 0.5])
    pair = np.array([0, 1, 2, 0, 1, 2, 0])
    batch = np.array([5, 5, 5, 9, 9, 9, 9])
    found = pair_errors(2 * a[pair], a[pair], pair, batch)
    assert found.scale == pytest.approx(0.5) and found.raw_bias.mean == pytest.approx(1)
    assert found.bias.mean == pytest.approx(0, abs=1e-6) and found.spread.mean == pytest.approx(0, abs=1e-6)
    silent = pair_errors(np.zeros(7), a[pair], pair, batch)
    assert np.isnan(silent.scale) and silent.raw_bias.mean == 1 and silent.raw_spread.mean == 0


def test_products_of_different_batches_by_a_loop():
    rng = np.random.default_rng(3)
    pair, batch = rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    x, a = rng.normal(size=60) + 2, rng.normal(size=5)
    mm = xx = xa = aa = num = 0.0
    for p in range(5):
        rows = [(x[i], batch[i]) for i in range(60) if pair[i] == p]
        products = [v * w for v, b in rows for w, c in rows if b != c]
        mm += len(rows) * np.mean(products)
        xx += sum(v * v for v, _ in rows)
        xa += sum(v * a[p] for v, _ in rows)
        aa += len(rows) * a[p] ** 2
        num += len(rows)
    found = pair_errors(x, a[pair], pair, batch)
    assert found.scale == pytest.approx(xa / mm)
    assert found.raw_spread.mean == pytest.approx(np.sqrt((xx - mm) / aa))
    assert found.raw_bias.mean == pytest.approx(np.sqrt((mm - 2 * xa + aa) / aa))
    assert found.bias.mean == pytest.approx(np.sqrt(1 - xa**2 / (mm * aa)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"estimate: shape \(2,\), truth \(3,\); expected two equal"):
        correlation(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="not finite"):
        cosine(np.array([np.inf]), np.ones(1))
    with pytest.raises(ValueError, match="share: 0; expected above 0"):
        top_precision(np.ones(2), np.ones(2), share=0)
    with pytest.raises(ValueError, match="no pair occurs in two batches"):
        pair_errors(np.ones(2), np.ones(2), np.array([0, 1]), np.array([0, 1]))
