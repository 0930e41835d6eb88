"""What learning.py's finished runs say: `python benchmarks/learning_report.py` renews docs/results/."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from learning import BASELINES, METHODS, RATES, SEEDS, Job, chosen_rate, finished, mean_success, tuning_jobs
from line_figure import Panel, draw

from gagpo.aggregate import (
    at_steps,
    bootstrap,
    interquartile_curve,
    interquartile_mean,
    interval,
    probability_of_improvement,
)
from gagpo.store import Run

HEADING = "## Tables\n"
LAST = 5  # iterations at the end whose advantages are described
POINTS = 26  # of a curve
LOOKS = {
    "GAGPO": ("#D55E00", ""),
    "GiGPO": ("#0072B2", "8 2 2 2"),
    "GRPO": ("#E69F00", "4 4"),
    "RLOO": ("#009E73", "2 2"),
    "PPO": ("#CC79A7", "6 3"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """One run: evaluations (E,) after so many environment steps, and numbers about its training."""

    job: Job
    steps: np.ndarray
    success: np.ndarray
    length: np.ndarray
    roughness: float
    advantage_iqr: float
    above_one: float

    def score(self, budget: float) -> float:
        """Success after `budget` environment steps, between evaluations by a straight line."""
        return float(at_steps(self.steps, self.success, np.array([budget]))[0])

    def area(self, budget: float) -> float:
        """Mean success over the first `budget` environment steps."""
        return float(at_steps(self.steps, self.success, np.linspace(0, budget, 201)).mean())


def read_result(job: Job, run: Run) -> Result:
    """`roughness` is the mean |g_i - g_{i-1}| over the mean g of the gradient norms g of the iterations;
    `advantage_iqr` and `above_one` (share of |A| > 1) are means over the last LAST iterations."""
    train, unseen = run.read_metrics("train"), run.read_metrics("eval")
    steps = np.cumsum([0.0, *(row["num_steps"] for row in train)])
    norm = np.array([row["gradient_norm"] for row in train])
    return Result(
        job=job,
        steps=np.array([steps[row["iteration"]] for row in unseen]),
        success=np.array([row["success_rate"] for row in unseen]),
        length=np.array([row["episode_length"] for row in unseen]),
        roughness=float(np.abs(np.diff(norm)).mean() / norm.mean()),
        advantage_iqr=float(np.mean([row["advantage_iqr"] for row in train[-LAST:]])),
        above_one=float(np.mean([row["advantage_above_one"] for row in train[-LAST:]])),
    )


def compared(runs_dir: Path) -> dict[str, list[Result]]:
    """The finished runs of each method at its rate, for methods whose tuning is finished."""
    results = {}
    for method in METHODS:
        rate = chosen_rate(runs_dir, method)
        jobs = [] if rate is None else [Job(method, rate, seed) for seed in SEEDS]
        found = [read_result(job, run) for job in jobs if (run := finished(runs_dir, job))]
        if found:
            results[method] = found
    return results


def check_starts(results: dict[str, list[Result]]) -> None:
    """The gate: runs of one seed have one warm start. Raises ValueError otherwise."""
    starts: dict[int, set[float]] = {}
    for result in (r for found in results.values() for r in found):
        starts.setdefault(result.job.seed, set()).add(float(result.success[0]))
    for seed, values in starts.items():
        if len(values) > 1:
            raise ValueError(f"seed {seed}: starts at {sorted(values)}; expected one success for all methods")


def summary(results: dict[str, list[Result]], budget: float) -> list[list[str]]:
    """Learning: IQM over the seeds with a 95 % interval."""
    head = ["method", "seeds", "start", "half way", "at the budget", "mean on the way", "last", "length"]
    measures: list[Callable[[Result], float]] = [
        lambda r: r.success[0], lambda r: r.score(budget / 2), lambda r: r.score(budget),
        lambda r: r.area(budget), lambda r: r.success[-1],
    ]  # fmt: skip
    rows = [head]
    for method, found in results.items():
        rows.append([method, str(len(found)), *(_iqm(found, m, ".1%") for m in measures)])
        rows[-1].append(_iqm(found, lambda r: r.length[-1], ".2f"))
    return rows


def signal(results: dict[str, list[Result]]) -> list[list[str]]:
    """What the paper says of gradients and advantages: IQM with a 95 % interval."""
    rows = [["method", "roughness of the gradient norm", "IQR of advantages", "share above 1"]]
    for method, found in results.items():
        rows.append([
            method,
            _iqm(found, lambda r: r.roughness, ".3f"),
            _iqm(found, lambda r: r.advantage_iqr, ".2f"),
            _iqm(found, lambda r: r.above_one, ".1%"),
        ])  # fmt: skip
    return rows


def improvements(results: dict[str, list[Result]], budget: float) -> list[list[str]]:
    """P(a run of GAGPO scores above one of another method)."""
    rows = [["GAGPO against", "at the budget", "mean on the way"]]
    for method, found in results.items():
        cells = []
        for measure in (partial(Result.score, budget=budget), partial(Result.area, budget=budget)):
            ours, theirs = ([np.array([measure(r) for r in x])] for x in (results["GAGPO"], found))
            cells.append(_cell(*interval(probability_of_improvement, ours, theirs), ".2f"))
        if method != "GAGPO":
            rows.append([method, *cells])
    return rows


def tuning(runs_dir: Path) -> list[list[str]]:
    """Mean success over evaluations and tuning seeds, for each rate; the chosen one in bold."""
    rows = [["method", *(f"{rate:g}" for rate in RATES)]]
    for method in METHODS:
        chosen = chosen_rate(runs_dir, method)
        if chosen is None:
            continue
        scores = {rate: [] for rate in RATES}
        for job in tuning_jobs(method):
            scores[job.learning_rate].append(mean_success(finished(runs_dir, job)))
        shown = {rate: f"{np.mean(values):.1%}" for rate, values in scores.items()}
        rows.append([method, *(f"**{shown[r]}**" if r == chosen else shown[r] for r in RATES)])
    return rows


def figure(results: dict[str, list[Result]], budget: float) -> str:
    """Success and episode length against environment steps: IQM with 95 % bands."""
    grid = np.linspace(0, budget, POINTS)
    ticks = [(x, f"{x / 1000:.0f}k") for x in np.arange(0, budget + 1, 4000)]
    ticks = [*ticks, (budget, "")] if ticks[-1][0] < budget else ticks
    longest = max(r.length.max() for found in results.values() for r in found)
    panels = [
        Panel("environment steps", _curves(results, grid, "success"), ticks,
              [(y / 4, f"{y / 4:.0%}") for y in range(5)], bands=True),
        Panel("environment steps", _curves(results, grid, "length"), ticks,
              [(y, f"{y}") for y in range(0, int(longest) + 5, 5)], bands=True),
    ]  # fmt: skip
    looks = {method: look for method, look in LOOKS.items() if method in results}
    return draw("Success on unseen houses, and steps an episode", panels, looks)


def _curves(results: dict[str, list[Result]], grid: np.ndarray, what: str) -> dict[str, list]:
    lines = {}
    for method in BASELINES:
        if method in results:
            runs = np.stack([at_steps(r.steps, getattr(r, what), grid) for r in results[method]])
            lines[method] = list(zip(grid, *bootstrap(interquartile_curve, [runs]), strict=True))
    return lines


def _iqm(found: Sequence[Result], measure: Callable[[Result], float], form: str) -> str:
    return _cell(*interval(interquartile_mean, [np.array([measure(r) for r in found])]), form)


def _cell(estimate: float, low: float, high: float, form: str) -> str:
    return f"{estimate:{form}} [{low:{form}}, {high:{form}}]".replace("%", "")


def run_lines(results: dict[str, list[Result]]) -> Iterable[list[object]]:
    """One line for each evaluation of each compared run."""
    yield ["method", "learning_rate", "seed", "env_steps", "success", "episode_length"]
    for result in (r for found in results.values() for r in found):
        own = [result.job.method, f"{result.job.learning_rate:g}", result.job.seed]
        for row in zip(result.steps, result.success, result.length, strict=True):
            yield [*own, f"{row[0]:.0f}", f"{row[1]:.6f}", f"{row[2]:.6f}"]


def table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""])


def write_report(runs_dir: Path, out: Path) -> None:
    """Write learning.csv, learning.svg, and what follows "Tables" in learning.md."""
    results = compared(runs_dir)
    if "GAGPO" not in results:
        raise ValueError(f"{runs_dir}: no finished comparison run of GAGPO; run learning.py first")
    check_starts(results)
    budget = min(r.steps[-1] for found in results.values() for r in found)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "learning.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(run_lines(results))
    (out / "learning.svg").write_text(figure(results, budget), "utf-8")
    parts = [
        f"Success in percent; the budget is {budget:,.0f} environment steps, the fewest that a run took.\n",
        table(summary(results, budget)),
        table(improvements(results, budget)),
        table(signal(results)),
        "Tuning, by learning rate:\n",
        table(tuning(runs_dir)),
    ]
    page = out / "learning.md"
    text = page.read_text("utf-8") if page.exists() else HEADING
    page.write_text(text.partition(HEADING)[0] + HEADING + "\n" + "\n".join(parts), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/learning"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "results")
    arguments = parser.parse_args()
    write_report(arguments.runs_dir, arguments.out)


if __name__ == "__main__":
    main()
