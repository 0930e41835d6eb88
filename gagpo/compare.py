"""Runs side by side: settings that differ, curves over seeds with bands, advantages by iteration.

`gagpo.align` has trajectories side by side.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gagpo.aggregate import at_steps, bootstrap, interquartile_curve
from gagpo.checked import unknown
from gagpo.config import section_of
from gagpo.stats import measured
from gagpo.steps_file import read_steps
from gagpo.store import Run

# Settings by which runs may differ and still be repetitions of one another.
OF_REPETITION = ("run_id", "seed", "checkpoint_every", "keep_checkpoints", "tensorboard", "num_threads")
AXES = ("iteration", "steps")
COLUMNS = ("normalized", "advantage", "td_error", "return_to_go", "value")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not the same in all runs: its section, its name, its value in each run."""

    section: str
    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A metric of R runs that repeat one another, at P points.

    settings   (name, value) of what tells these runs from those of the other curves
    runs       their names; runs that have nothing measured are left out
    x          (P,) float64    iterations, or environment steps of training
    scores     (R, P) float64  each run's
    estimate   (P,) float64    interquartile mean over the runs; with fewer than four, the mean
    low, high  (P,) float64    bootstrap interval of that
    """

    settings: tuple[tuple[str, Any], ...]
    runs: tuple[str, ...]
    x: np.ndarray
    scores: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How a column of credit is spread in each of I iterations.

    iteration  (I,) int64
    num_steps  (I,) int64
    quantiles  (Q,) float64    in [0, 1]
    values     (I, Q) float64  by linear interpolation
    """

    iteration: np.ndarray
    num_steps: np.ndarray
    quantiles: np.ndarray
    values: np.ndarray


def config_difference(runs: Sequence[Run]) -> tuple[Difference, ...]:
    """Settings whose values differ between the runs, in the order of `Config`; the names of the runs, which
    always do, are left out."""
    flat = [run.read_config().to_flat() for run in runs]
    sections = section_of()
    return tuple(
        Difference(sections[name], name, tuple(own[name] for own in flat))
        for name in (flat[0] if flat else ())
        if name != "run_id" and any(own[name] != flat[0][name] for own in flat)
    )


def curves(
    runs: Sequence[Run],
    metric: str,
    *,
    stage: str = "train",
    by: str = "iteration",
    num_resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Curve, ...]:
    """A curve for each set of runs with equal settings but for OF_REPETITION, in the order of the runs.

    By "iteration": at the iterations that all of its runs have measured. By "steps": at as many evenly
    spaced points as its shortest run has, from where the last of them was first measured to where the
    first of them ends; between measurements by a straight line. A training iteration stands at the steps
    that were taken when it was collected, an evaluation at those taken before it.
    """
    if by not in AXES:
        raise ValueError(f"by: {by!r}; expected one of {', '.join(AXES)}")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_repetition(run), []).append(run)
    names, drawn = set(), []
    told = _told_apart([own[0] for own in groups.values()])
    for own, settings in zip(groups.values(), told, strict=True):
        points = {}
        for run in own:
            x, y, known = _measurements(run, metric, stage, by)
            names |= known
            if len(x):
                points[run.run_id] = (x, y)
        if points:
            x, scores = (_at_iterations if by == "iteration" else _at_steps)(list(points.values()))
            bands = _bands(scores, num_resamples, confidence, seed)
            drawn.append(Curve(settings, tuple(points), x, scores, *bands))
    if names and metric not in names:
        raise ValueError(
            f"{unknown('metric', metric, names)}; stage {stage!r} has {', '.join(sorted(names))}"
        )
    return tuple(drawn)


def advantage_quantiles(
    run: Run, column: str = "normalized", quantiles: Sequence[float] = QUANTILES
) -> Spread:
    """Quantiles of a column of credit in each recorded iteration; iteration 0 is of demonstrations."""
    if column not in COLUMNS:
        raise ValueError(f"{unknown('column', column, COLUMNS)}; expected one of {', '.join(COLUMNS)}")
    if any(not 0 <= share <= 1 for share in quantiles):
        raise ValueError(f"quantiles: {tuple(quantiles)}; expected numbers from 0 to 1")
    iterations = run.iterations_with_steps()
    columns = [read_steps(run.steps_path(i), [column])[column].to_numpy() for i in iterations]
    values = [np.quantile(own, quantiles) if len(own) else np.full(len(quantiles), np.nan) for own in columns]
    return Spread(
        iteration=np.array(iterations, np.int64),
        num_steps=np.array([len(own) for own in columns], np.int64),
        quantiles=np.array(quantiles, np.float64),
        values=np.array(values, np.float64).reshape(len(iterations), len(quantiles)),
    )


def _repetition(run: Run) -> str:
    """Equal for runs that repeat one another."""
    flat = run.read_config().to_flat()
    return json.dumps({name: value for name, value in flat.items() if name not in OF_REPETITION})


def _told_apart(runs: Sequence[Run]) -> list[tuple[tuple[str, Any], ...]]:
    """For each run, the settings by which it differs from the others."""
    found = [d for d in config_difference(runs) if d.name not in OF_REPETITION]
    return [tuple((d.name, d.values[i]) for d in found) for i in range(len(runs))]


def _measurements(run: Run, metric: str, stage: str, by: str) -> tuple[np.ndarray, np.ndarray, set[str]]:
    """(x, y, names): where a metric was measured and finite, and the metrics that the run's stage has."""
    records = run.read_metrics(stage)
    found = {r["iteration"]: y for r in records if (y := measured(r, metric)) is not None}
    names = {name for r in records for name in r} - {"stage", "iteration", "time"}
    iterations = sorted(found)
    y = np.array([found[i] for i in iterations], np.float64)
    if by == "iteration":
        return np.array(iterations, np.float64), y, names
    taken = {r["iteration"]: r.get("num_steps") for r in run.read_metrics("train")}
    if None in taken.values():
        raise ValueError(f"run {run.run_id!r}: num_steps was not recorded; expected by 'iteration'")
    order = sorted(taken)
    total = np.cumsum([0.0, *(taken[i] for i in order)])
    return total[np.searchsorted(order, iterations, "right")], y, names


Points = Sequence[tuple[np.ndarray, np.ndarray]]


def _at_iterations(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """(P,) the iterations that all runs have, and (R, P) the scores there."""
    shared = points[0][0]
    for x, _ in points[1:]:
        shared = np.intersect1d(shared, x)
    return shared, np.stack([y[np.searchsorted(x, shared)] for x, y in points])


def _at_steps(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """(P,) steps that lie within the measurements of all runs, and (R, P) the scores there."""
    first, last = max(x[0] for x, _ in points), min(x[-1] for x, _ in points)
    num = min(len(x) for x, _ in points) if first < last else int(first == last)
    grid = np.linspace(first, last, num)
    return grid, np.stack([at_steps(x, y, grid) for x, y in points])


def _bands(scores: np.ndarray, num_resamples: int, confidence: float, seed: int) -> tuple[np.ndarray, ...]:
    if not scores.size:  # runs that share no point
        return (np.zeros(0),) * 3
    how = {"num_resamples": num_resamples, "confidence": confidence, "seed": seed}
    return bootstrap(interquartile_curve, [scores], **how)
