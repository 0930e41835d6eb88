"""Agreement coefficients: hand-computed tables, published values, a slow reference, and invariances."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gagpo.agreement import METRICS, WEIGHTS, cohen_kappa, krippendorff_alpha, percent_agreement

NAN = math.nan
# Four observers and twelve units, from K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T
QUICK = {"num_resamples": 0}


def counted(table: list[list[int]]) -> np.ndarray:
    """Ratings of two reviewers with that many units in each cell."""
    cells = product(range(len(table)), repeat=2)
    return np.array([(i, j) for i, j in cells for _ in range(table[i][j])], float)


@pytest.mark.parametrize(
    ("metric", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_of_krippendorffs_example(metric, published):
    found = krippendorff_alpha(KRIPPENDORFF, metric)
    assert round(found.estimate, 3) == published
    assert (found.num_units, found.num_values, found.reason) == (11, 40, "")  # unit 12 has one answer
    assert found.low < found.estimate <= found.high <= 1


def test_alpha_by_hand():
    # Units {1, 1}, {1, 2}, {2, 3}: n = 6, n_1 = 3, n_2 = 2, n_3 = 1.
    ratings = np.array([[1, 1], [1, 2], [2, 3]])
    # Nominal: D_o = 4/6; D_e = (6 + 3 + 2) * 2 / 30. Interval: D_o = (2 + 2)/6; D_e = 2(6 + 12 + 2)/30.
    assert krippendorff_alpha(ratings).estimate == pytest.approx(1 - (4 / 6) / (22 / 30))
    assert krippendorff_alpha(ratings, "interval").estimate == pytest.approx(1 - (4 / 6) / (40 / 30))
    # Ordinal: the middles of the ranks are 1.5, 4, 5.5; d_12 = 6.25, d_13 = 16, d_23 = 2.25.
    expected = 2 * (6 * 6.25 + 3 * 16 + 2 * 2.25) / 30
    assert krippendorff_alpha(ratings, "ordinal").estimate == pytest.approx(
        1 - (2 * 6.25 + 2 * 2.25) / 6 / expected
    )


def test_kappa_by_hand():
    # p_o = 35/50 and p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5, so kappa = 0.2 / 0.5.
    found = cohen_kappa(counted([[20, 5], [10, 15]]))
    assert found.estimate == pytest.approx(0.4) and (found.num_units, found.num_values) == (50, 100)
    assert percent_agreement(counted([[20, 5], [10, 15]])).estimate == pytest.approx(0.7)
    # Rows 3, 3, 4 and columns 4, 3, 3 of ten. Linear: observed (1 + 1 + 2 * 1) / 10; expected
    # (3*3 + 3*4 + 3*3 + 4*3 + 2 * (3*3 + 4*4)) / 100. Quadratic: (1 + 1 + 4) / 10 and 142 / 100.
    table = counted([[2, 1, 0], [1, 2, 0], [1, 0, 3]])
    assert cohen_kappa(table, "linear").estimate == pytest.approx(1 - 0.4 / 0.92)
    assert cohen_kappa(table, "quadratic").estimate == pytest.approx(1 - 0.6 / 1.42)
    assert cohen_kappa(table).estimate == pytest.approx((0.7 - 0.33) / (1 - 0.33))


def test_kappa_counts_only_what_both_answered():
    ratings = np.vstack([counted([[20, 5], [10, 15]]), [[0, NAN], [NAN, 1], [NAN, NAN]]])
    assert cohen_kappa(ratings) == cohen_kappa(ratings[:50])


def test_percent_agreement_counts_pairs():
    # Three pairs of which one is equal, and one pair that is equal.
    assert percent_agreement(np.array([[1, 1, 2], [NAN, 4, 4]])).estimate == 2 / 4


@pytest.mark.parametrize("measure", [cohen_kappa, krippendorff_alpha, percent_agreement])
@pytest.mark.parametrize("ratings", [np.zeros((0, 2)), np.full((3, 2), NAN), np.array([[1, NAN], [NAN, 2]])])
def test_without_common_units_it_is_undefined(measure, ratings):
    found = measure(ratings)
    assert math.isnan(found.estimate) and math.isnan(found.low) and math.isnan(found.high)
    assert (found.num_units, found.num_values, found.reason) == (0, 0, "no unit has answers of two reviewers")


def test_a_single_category_says_nothing_about_chance():
    with np.errstate(all="raise"):  # it is told, not the outcome of 0 / 0
        found = [cohen_kappa(np.ones((4, 2)), w) for w in WEIGHTS]
        found += [krippendorff_alpha(np.ones((4, 2)), m) for m in METRICS]
    assert all(math.isnan(f.estimate) and f.reason == "all answers are the same" for f in found)
    assert percent_agreement(np.ones((4, 2))).estimate == 1
    # Each reviewer keeps to one category of their own: no agreement beyond chance.
    assert cohen_kappa(counted([[0, 5], [0, 0]])).estimate == 0


def test_one_unit_has_no_interval():
    found = krippendorff_alpha(np.array([[1, 2]]))
    assert found.estimate == 0 and math.isnan(found.low) and "one unit" in found.reason


def test_resamples_without_variation_are_left_out_and_many_of_them_tell():
    # Of three units, one of them odd, (8 + 1) / 27 of the resamples have one answer only; of two, half.
    kept = krippendorff_alpha(np.array([[0, 0], [0, 0], [1, 1]]))
    assert (kept.estimate, kept.low, kept.high) == (1, 1, 1)
    few = [krippendorff_alpha(np.array([[0, 0], [1, 1]]), num_resamples=3, seed=s) for s in range(20)]
    told = [found for found in few if math.isnan(found.low)]
    assert 0 < len(told) < 20 and all("resamples have one answer only" in found.reason for found in told)


def test_the_interval_covers_and_narrows():
    """Two reviewers who agree beyond chance with kappa 0.6: 95 % intervals cover it about so often."""
    rng = np.random.default_rng(0)
    truth = 0.6

    def drawn(num_units: int) -> np.ndarray:
        first = rng.integers(2, size=num_units)
        copied = rng.random(num_units) < truth
        return np.stack([first, np.where(copied, first, rng.integers(2, size=num_units))], 1).astype(float)

    found = [cohen_kappa(drawn(80), num_resamples=150, seed=i) for i in range(400)]
    covered = np.mean([f.low <= truth <= f.high for f in found])
    assert 0.90 <= covered <= 0.98  # 0.94 of 1500
    wide, narrow = (cohen_kappa(drawn(num), num_resamples=300) for num in (50, 800))
    assert (narrow.high - narrow.low) < (wide.high - wide.low) / 2


def slow_alpha(ratings: np.ndarray, metric: str) -> float:
    """By every ordered pair of answers: within units for what is observed, among all for chance."""
    units = [[v for v in row if not math.isnan(v)] for row in ratings.tolist()]
    units = [unit for unit in units if len(unit) >= 2]
    pool = [value for unit in units for value in unit]
    counts = Counter(pool)

    def distance(a: float, b: float) -> float:
        if metric == "nominal":
            return float(a != b)
        if metric == "interval":
            return (a - b) ** 2
        between = sum(n for value, n in counts.items() if min(a, b) <= value <= max(a, b))
        return (between - (counts[a] + counts[b]) / 2) ** 2

    observed = sum(
        sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units
    ) / len(pool)
    expected = sum(distance(a, b) for a, b in permutations(pool, 2)) / (len(pool) * (len(pool) - 1))
    return 1 - observed / expected


def slow_kappa(ratings: np.ndarray, weights: str) -> float:
    """Every unit's own disagreement, beside that of every answer of one with every answer of the other."""
    pairs = [pair for pair in ratings.tolist() if not any(map(math.isnan, pair))]
    weight = {
        "nominal": lambda a, b: float(a != b),
        "linear": lambda a, b: abs(a - b),
        "quadratic": lambda a, b: (a - b) ** 2,
    }[weights]
    observed = np.mean([weight(a, b) for a, b in pairs])
    expected = np.mean([weight(a, b) for (a, _), (_, b) in product(pairs, repeat=2)])
    return 1 - observed / expected


def matrices(num_reviewers: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    value = st.sampled_from([-3.0, 0.0, 1.0, 2.0, 7.0, NAN])

    def rows(width: int) -> st.SearchStrategy[np.ndarray]:
        row = st.lists(value, min_size=width, max_size=width)
        return st.lists(row, min_size=1, max_size=8).map(np.array)

    return num_reviewers.flatmap(rows)


@settings(max_examples=150, deadline=None)
@given(matrices(st.integers(2, 5)), st.sampled_from(METRICS))
def test_alpha_is_that_of_all_pairs(ratings, metric):
    found = krippendorff_alpha(ratings, metric, **QUICK)
    assume(not math.isnan(found.estimate))
    assert found.estimate == pytest.approx(slow_alpha(ratings, metric))


@settings(max_examples=150, deadline=None)
@given(matrices(st.just(2)), st.sampled_from(WEIGHTS))
def test_kappa_is_that_of_all_pairs(ratings, weights):
    found = cohen_kappa(ratings, weights, **QUICK)
    assume(not math.isnan(found.estimate))
    assert found.estimate == pytest.approx(slow_kappa(ratings, weights))


@settings(max_examples=100, deadline=None)
@given(matrices(st.integers(2, 4)), st.sampled_from(METRICS), st.randoms())
def test_neither_the_order_of_units_nor_of_reviewers_counts(ratings, metric, random):
    def shuffled(size: int) -> list[int]:
        return random.sample(range(size), size)

    moved = ratings[shuffled(len(ratings))][:, shuffled(ratings.shape[1])]
    for measure in (
        lambda r: krippendorff_alpha(r, metric, **QUICK),
        lambda r: percent_agreement(r, **QUICK),
    ):
        first, second = measure(ratings), measure(moved)
        assert second.estimate == pytest.approx(first.estimate, nan_ok=True)
        assert (first.num_units, first.num_values) == (second.num_units, second.num_values)
    intervals = [krippendorff_alpha(r, metric, num_resamples=9) for r in (ratings, moved)]
    assert intervals[1].low == pytest.approx(intervals[0].low, nan_ok=True)
    pair = ratings[:, :2]
    for weights in WEIGHTS:
        swapped = cohen_kappa(pair[:, ::-1], weights, **QUICK).estimate
        assert swapped == pytest.approx(cohen_kappa(pair, weights, **QUICK).estimate, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=8), st.integers(2, 4), st.sampled_from(METRICS))
def test_perfect_agreement_is_one(values, num_reviewers, metric):
    assume(len(set(values)) > 1)
    ratings = np.repeat(np.array(values, float)[:, None], num_reviewers, 1)
    found = krippendorff_alpha(ratings, metric, num_resamples=20)
    assert found.estimate == 1 and (math.isnan(found.low) or (found.low, found.high) == (1, 1))
    assert percent_agreement(ratings, **QUICK).estimate == 1
    assert all(cohen_kappa(ratings[:, :2], weights, **QUICK).estimate == 1 for weights in WEIGHTS)


@settings(max_examples=60, deadline=None)
@given(matrices(st.integers(2, 4)), st.permutations([-3.0, 0.0, 1.0, 2.0, 7.0]))
def test_nominal_categories_have_no_order_and_ordinal_ones_no_distance(ratings, names):
    values = [-3.0, 0.0, 1.0, 2.0, 7.0]

    def renamed(new: list[float]) -> np.ndarray:
        table = dict(zip(values, new, strict=True))
        return np.array([[table.get(v, NAN) for v in row] for row in ratings.tolist()])

    def alpha(ratings: np.ndarray, metric: str) -> float:
        return krippendorff_alpha(ratings, metric, **QUICK).estimate

    assert alpha(renamed(names), "nominal") == pytest.approx(alpha(ratings, "nominal"), nan_ok=True)
    stretched = renamed([v**3 + 100 for v in values])
    assert alpha(stretched, "ordinal") == pytest.approx(alpha(ratings, "ordinal"), nan_ok=True)
    moved = renamed([-2 * v + 5 for v in values])
    assert alpha(moved, "interval") == pytest.approx(alpha(ratings, "interval"), nan_ok=True)


def test_what_is_no_matrix_of_ratings_is_refused():
    for call, expected in [
        (lambda: cohen_kappa(np.ones((3, 3))), "3 reviewers"),
        (lambda: cohen_kappa(np.ones((3, 2)), "cubic"), "weights: 'cubic'"),
        (lambda: krippendorff_alpha(np.ones((3, 2)), "ratio"), "metric: 'ratio'"),
        (lambda: krippendorff_alpha(np.ones(3)), "1 dimensions"),
        (lambda: percent_agreement(np.array([[1, np.inf]])), "infinite"),
    ]:
        with pytest.raises(ValueError, match=expected):
            call()
