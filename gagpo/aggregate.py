"""What several seeds say together: interquartile means with bootstrap intervals.

Scores come in strata: one array for each world (or task type), with one score for each run in it. The
definitions are those of "Deep RL at the Edge of the Statistical Precipice" (arXiv 2108.13264), with
worlds for its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Strata = Sequence[np.ndarray]


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float


def interquartile_mean(strata: Strata) -> float:
    """The mean of all scores but the lowest and the highest quarter, each of floor(N / 4) scores."""
    scores = np.sort(np.concatenate(_checked(strata)))
    cut = len(scores) // 4
    return float(scores[cut : len(scores) - cut].mean())


def probability_of_improvement(first: Strata, second: Strata) -> float:
    """P(a run of `first` scores above a run of `second`), ties counting half; mean over the strata.

    The strata of both are in the same order; the numbers of runs may differ.
    """
    shares = []
    for ours, theirs in zip(_checked(first), _checked(second), strict=True):
        gap = ours[:, None] - theirs
        shares.append((np.sign(gap).mean() + 1) / 2)
    return float(np.mean(shares))


def bootstrap(
    statistic: Callable[..., float | np.ndarray],
    *samples: Strata,
    num_resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(estimate, low, high) of `statistic(*samples)`, each in the shape of what it returns.

    The stratified percentile bootstrap: in every resample each stratum of each sample is drawn anew,
    run by run, with replacement. A run may be a row: strata of shape (runs, points) keep its points
    together, as bands around curves need.
    """
    if num_resamples < 2 or not 0 < confidence < 1:
        given = f"{num_resamples}, {confidence}"
        raise ValueError(f"num_resamples, confidence: {given}; expected at least 2, and between 0 and 1")
    samples = tuple(_checked(strata) for strata in samples)
    rng = np.random.default_rng(seed)
    drawn = [statistic(*(_resampled(strata, rng) for strata in samples)) for _ in range(num_resamples)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.asarray(drawn, np.float64), [tail, 1 - tail], axis=0)
    return np.asarray(statistic(*samples), np.float64), low, high


def interval(statistic: Callable[..., float], *samples: Strata, **how) -> Interval:
    """`bootstrap` of a statistic that is one number."""
    return Interval(*map(float, bootstrap(statistic, *samples, **how)))


def interquartile_curve(strata: Strata) -> np.ndarray:
    """(points,) the interquartile mean at each point of strata of shape (runs, points)."""
    stacked = np.sort(np.concatenate(_checked(strata)), axis=0)
    cut = len(stacked) // 4
    return stacked[cut : len(stacked) - cut].mean(0)


def at_steps(steps: np.ndarray, scores: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Scores of one run, measured after `steps` environment steps, on a common `grid` of steps.

    Linear between measurements; beyond the last one the last score holds. `steps` must rise.
    """
    steps, scores = np.asarray(steps, np.float64), np.asarray(scores, np.float64)
    if len(steps) != len(scores) or len(steps) == 0 or np.any(np.diff(steps) <= 0):
        raise ValueError("steps: expected as many as scores, rising, and at least one")
    return np.interp(grid, steps, scores)


def _resampled(strata: Strata, rng: np.random.Generator) -> list[np.ndarray]:
    return [scores[rng.integers(len(scores), size=len(scores))] for scores in strata]


def _checked(strata: Strata) -> list[np.ndarray]:
    arrays = [np.asarray(scores, np.float64) for scores in strata]
    if not arrays or any(scores.ndim == 0 or len(scores) == 0 for scores in arrays):
        raise ValueError("scores: expected one or more strata with at least one run in each")
    if not all(np.isfinite(scores).all() for scores in arrays):
        raise ValueError("scores: not finite; expected a number for every run")
    return arrays
