"""Statistics over seeds: numbers by hand, identities, coverage."""

import numpy as np
import pytest

from gagpo.aggregate import (
    at_steps,
    bootstrap,
    interquartile_curve,
    interquartile_mean,
    interval,
    probability_of_improvement,
)


def test_interquartile_mean_leaves_a_quarter_out_at_each_end():
    assert interquartile_mean([np.array([0, 1, 2, 3, 4, 5, 6, 100])]) == 3.5  # of 2, 3, 4, 5
    assert interquartile_mean([np.array([9.0, 1.0, 2.0])]) == 4.0  # floor(3 / 4) = 0 are left out
    assert interquartile_mean([np.array([7.0])]) == 7.0


def test_interquartile_mean_pools_the_strata():
    assert interquartile_mean([np.array([0.0, 10.0]), np.array([4.0, 6.0])]) == 5.0


def test_interquartile_curve_is_the_mean_at_each_point():
    curves = np.random.default_rng(0).normal(size=(9, 5))
    expected = [interquartile_mean([curves[:, i]]) for i in range(5)]
    np.testing.assert_allclose(interquartile_curve([curves]), expected)


def test_probability_of_improvement_counts_pairs_and_halves_ties():
    # 3 > 1, 3 > 2, 2 > 1, and 2 = 2 counts half: 3.5 of 4.
    assert probability_of_improvement([np.array([3, 2])], [np.array([1, 2])]) == pytest.approx(3.5 / 4)


def test_probability_of_improvement_is_a_mean_over_strata():
    ours, theirs = [np.array([1.0]), np.array([0.0, 0.0])], [np.array([0.0]), np.array([1.0])]
    assert probability_of_improvement(ours, theirs) == 0.5
    rng = np.random.default_rng(1)
    a, b = [rng.normal(size=5)], [rng.normal(size=4)]
    assert probability_of_improvement(a, b) == pytest.approx(1 - probability_of_improvement(b, a))


def test_bootstrap_draws_within_strata():
    """One run in each stratum leaves nothing to draw, however far the strata lie apart."""
    found = interval(interquartile_mean, [np.array([0.0]), np.array([100.0])])
    assert found == (50.0, 50.0, 50.0)


def test_bootstrap_keeps_a_run_together():
    """Rows that are constant stay so: a band has equal bounds at every point."""
    rows = np.repeat(np.array([[0.1], [0.5], [0.9], [0.3]]), 3, axis=1)
    _, low, high = bootstrap(interquartile_curve, [rows])
    assert np.ptp(low) == 0 and np.ptp(high) == 0 and low[0] < high[0]


def test_bootstrap_covers_a_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = 0
    for i in range(200):
        scores = rng.normal(5.0, 2.0, size=30)
        low, high = interval(lambda s: float(np.mean(s[0])), [scores], num_resamples=300, seed=i)[1:]
        hits += low <= 5.0 <= high
    assert 176 <= hits <= 198  # 0.93 is usual for a percentile bootstrap of 30; 4 deviations wide


def test_bootstrap_follows_its_seed():
    scores = [np.random.default_rng(3).random(8)]
    assert interval(interquartile_mean, scores, seed=1) == interval(interquartile_mean, scores, seed=1)
    assert interval(interquartile_mean, scores, seed=1) != interval(interquartile_mean, scores, seed=2)


def test_at_steps_is_linear_between_measurements_and_holds_the_last():
    found = at_steps(np.array([0, 100, 300]), np.array([0.2, 0.4, 0.8]), np.array([0, 50, 200, 900]))
    np.testing.assert_allclose(found, [0.2, 0.3, 0.6, 0.8])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: interquartile_mean([]), "one or more strata"),
        (lambda: interquartile_mean([np.array([])]), "at least one run"),
        (lambda: interquartile_mean([np.array([1.0, np.nan])]), "not finite"),
        (lambda: at_steps(np.array([0, 0]), np.array([1, 2]), np.array([0])), "rising"),
        (lambda: at_steps(np.array([0]), np.array([1, 2]), np.array([0])), "as many as scores"),
        (lambda: bootstrap(interquartile_mean, [np.ones(3)], confidence=1.0), "confidence"),
        (lambda: bootstrap(interquartile_mean, [np.ones(3)], num_resamples=1), "num_resamples"),
    ],
)
def test_errors_name_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
