"""How far reviewers agree beyond chance: Cohen's kappa, Krippendorff's alpha, percent agreement.

Ratings are one matrix: a row for each unit (what was judged), a column for each reviewer, NaN where a
reviewer gave no answer. Categories are numbers; of a nominal question any numbering will do. What is
undefined is NaN with a reason, never an error: a small review has many such cases.

Sources: J. Cohen, "A coefficient of agreement for nominal scales" (1960) and "Weighted kappa" (1968);
K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

METRICS = ("nominal", "ordinal", "interval")
WEIGHTS = ("nominal", "linear", "quadratic")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Agreement:
    """A coefficient with its bootstrap interval.

    num_units and num_values are those that count: units with answers of two reviewers or more, and the
    answers in them. `reason` says why `estimate`, or only the interval, is NaN; it is empty otherwise.
    """

    estimate: float
    low: float
    high: float
    num_units: int
    num_values: int
    reason: str = ""


def cohen_kappa(
    ratings: np.ndarray, weights: str = "nominal", *, num_resamples: int = 1000, seed: int = 0
) -> Agreement:
    """Cohen's kappa of two reviewers, over the units that both answered.

        kappa = 1 - sum_ij w_ij p_ij / sum_ij w_ij p_i. p_.j

    p_ij is the share of units that the first reviewer put in category i and the second in j, p_i. and p_.j
    are its margins, and w_ij is 1 off the diagonal (nominal), |i - j| (linear) or (i - j)^2 (quadratic)
    of the categories' numbers. Nominal: (p_o - p_e) / (1 - p_e). Undefined without a common unit, and
    where both reviewers gave one and the same answer throughout.

    ratings  (units, 2)
    """
    ratings = _checked(ratings)
    if ratings.shape[1] != 2:
        raise ValueError(f"ratings: {ratings.shape[1]} reviewers; Cohen's kappa takes 2")
    if weights not in WEIGHTS:
        raise ValueError(f"weights: {weights!r}; expected one of {', '.join(WEIGHTS)}")
    units = _pairable(ratings)
    categories, codes = _coded(units)
    pairs, times = _patterns(codes)
    gap = np.abs(categories[:, None] - categories)
    weight = {"nominal": (gap > 0) * 1.0, "linear": gap, "quadratic": gap**2}[weights]

    def kappa(times: np.ndarray) -> float:
        table = np.zeros(weight.shape)
        table[pairs[:, 0], pairs[:, 1]] = times / times.sum()
        expected = float((weight * np.outer(table.sum(1), table.sum(0))).sum())
        return 1 - float((weight * table).sum()) / expected if expected > 0 else NAN

    return _estimated(kappa, times, units, num_resamples, seed)


def krippendorff_alpha(
    ratings: np.ndarray, metric: str = "nominal", *, num_resamples: int = 1000, seed: int = 0
) -> Agreement:
    """Krippendorff's alpha of any number of reviewers, whose answers may be missing.

        alpha = 1 - D_o / D_e
        D_o = 1/n sum_ck o_ck d_ck        D_e = 1/(n (n - 1)) sum_ck n_c n_k d_ck

    o_ck are the coincidences: every ordered pair of answers within a unit of m answers counts 1/(m - 1).
    n_c = sum_k o_ck, n = sum_c n_c; units with a single answer do not count. The differences d_ck are
    1 where c != k (nominal), (c - k)^2 (interval), and (n_c/2 + the n between them + n_k/2)^2 (ordinal).
    Undefined without a unit of two answers, and where all answers are the same.

    ratings  (units, reviewers)
    """
    if metric not in METRICS:
        raise ValueError(f"metric: {metric!r}; expected one of {', '.join(METRICS)}")
    units = _pairable(_checked(ratings))
    categories, codes = _coded(units)
    counts, times = _patterns(_counts(codes, len(categories)))
    size = counts.sum(1)

    def alpha(times: np.ndarray) -> float:
        each = times @ counts
        if np.count_nonzero(each) < 2:
            return NAN
        total = each.sum()
        place = np.cumsum(each) - each / 2 if metric == "ordinal" else categories - categories[0]
        observed = (times * _spread(counts, place, metric) / (size - 1)).sum() / total
        return float(1 - observed * total * (total - 1) / _spread(each[None], place, metric)[0])

    return _estimated(alpha, times, units, num_resamples, seed)


def percent_agreement(ratings: np.ndarray, *, num_resamples: int = 1000, seed: int = 0) -> Agreement:
    """Share, in [0, 1], of the pairs of answers to one unit that are equal; chance is not taken off.

    ratings  (units, reviewers)
    """
    units = _pairable(_checked(ratings))
    categories, codes = _coded(units)
    counts, times = _patterns(_counts(codes, len(categories)))
    equal, pairs = _num_pairs(counts).sum(1), _num_pairs(counts.sum(1))
    return _estimated(lambda n: (n * equal).sum() / (n * pairs).sum(), times, units, num_resamples, seed)


def _counts(codes: np.ndarray, num_categories: int) -> np.ndarray:
    """(units, categories), how many answers of each category each unit has."""
    counts = np.zeros((len(codes), num_categories))
    unit, reviewer = np.nonzero(codes >= 0)
    np.add.at(counts, (unit, codes[unit, reviewer]), 1)
    return counts


def _spread(counts: np.ndarray, place: np.ndarray, metric: str) -> np.ndarray:
    """(rows,) sum_ck n_c n_k d_ck of each row of counts, without the square of the number of categories.

    The ordinal difference is the interval one of the middles of the categories' ranks, and
    sum_ck n_c n_k (p_c - p_k)^2 = 2 m sum_c n_c p_c^2 - 2 (sum_c n_c p_c)^2, with m = sum_c n_c.
    """
    size = counts.sum(1)
    if metric == "nominal":
        return size**2 - (counts**2).sum(1)
    return 2 * (size * (counts * place**2).sum(1) - (counts * place).sum(1) ** 2)


def _num_pairs(count: np.ndarray) -> np.ndarray:
    return count * (count - 1) / 2


def _checked(ratings: np.ndarray) -> np.ndarray:
    ratings = np.asarray(ratings, float)
    if ratings.ndim != 2:
        raise ValueError(f"ratings: {ratings.ndim} dimensions; expected 2, (units, reviewers)")
    if np.any(np.isinf(ratings)):
        raise ValueError("ratings: an infinite one; expected numbers, and NaN where an answer is missing")
    return ratings


def _pairable(ratings: np.ndarray) -> np.ndarray:
    """The units with two answers or more."""
    return ratings[(~np.isnan(ratings)).sum(1) >= 2]


def _coded(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the categories in use, ascending; for each answer the place of its category, -1 where missing)."""
    categories = np.unique(units[~np.isnan(units)])
    codes = np.searchsorted(categories, units)
    return categories, np.where(np.isnan(units), -1, codes)


def _patterns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the different rows, sorted; how often each is there): all that the coefficients depend on."""
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    return np.unique(rows, axis=0, return_counts=True)


def _estimated(
    statistic: Callable[[np.ndarray], float],
    times: np.ndarray,
    units: np.ndarray,
    num_resamples: int,
    seed: int,
) -> Agreement:
    """The statistic of how often each pattern is there, with a 95 % percentile bootstrap interval.

    To draw units with replacement is to draw how often each pattern comes, from a multinomial
    distribution. Resamples in which the statistic is undefined say nothing and are left out; where they
    are half or more, there is no interval.
    """
    num_units, num_values = len(units), int((~np.isnan(units)).sum())
    if not num_units:
        return Agreement(NAN, NAN, NAN, 0, 0, "no unit has answers of two reviewers")
    estimate = float(statistic(times))
    if np.isnan(estimate):
        return Agreement(NAN, NAN, NAN, num_units, num_values, "all answers are the same")
    if num_units == 1 or num_resamples < 2:
        reason = "one unit has no interval" if num_units == 1 else "no interval was asked for"
        return Agreement(estimate, NAN, NAN, num_units, num_values, reason)
    rng = np.random.default_rng(seed)
    drawn = [statistic(rng.multinomial(num_units, times / num_units)) for _ in range(num_resamples)]
    values = np.array(drawn)[~np.isnan(drawn)]
    if 2 * len(values) <= num_resamples:
        reason = f"{num_resamples - len(values)} of {num_resamples} resamples have one answer only"
        return Agreement(estimate, NAN, NAN, num_units, num_values, reason)
    low, high = np.percentile(values, [2.5, 97.5])
    return Agreement(estimate, float(low), float(high), num_units, num_values)
