"""Does credit matter for learning? `python benchmarks/learning.py --jobs 2`; again to go on.

Every method trains the same policy, from the same warm start, on the same tasks, for the same number
of episodes. Each one's learning rate is chosen among RATES by its success on TUNING_SEEDS, which the
comparison does not use; then it trains on SEEDS. Runs lie in --runs-dir, whole runs are not repeated,
and a killed one goes on. The tables are made of whatever is finished: learning_report.py.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gagpo.config import Config
from gagpo.store import Run, open_run

SETTINGS = {
    "env": "household",
    "num_receptacles": 4,
    "num_objects": 3,
    "task_types": ["pick_and_place_simple", "pick_clean_then_place_in_recep"],
    "max_steps": 20,
    "history": 8,
    "num_tasks": 8,
    "num_siblings": 8,
    "num_minibatches": 4,
    "hidden_size": 48,
    "num_threads": 1,
    "warm_episodes": 300,
    "warm_updates": 200,
    "warm_learning_rate": 2e-3,
    "expert_share": 0.4,
    "iterations": 25,
    "eval_every": 5,
    "eval_tasks": 64,
    "final_eval_tasks": 200,
    "eval_temperature": 1.0,
    "checkpoint_every": 1000,  # the start and the end are kept
}
BASELINES = {
    "GAGPO": {"estimator": "gagpo"},
    "GiGPO": {"estimator": "gigpo"},
    "GRPO": {"estimator": "grpo"},
    "RLOO": {"estimator": "rloo"},
    "PPO": {"estimator": "gae", "normalize": "batch"},
}
ABLATIONS = {
    "GAGPO, lambda 0": {"lam": 0.0},
    "GAGPO, lambda 1": {"lam": 1.0},
    "GAGPO, token ratio": {"ratio": "token"},
    "GAGPO, episode term": {"episode_term": 1.0},
    "GAGPO, batch normalised": {"normalize": "batch"},
    "GAGPO, not normalised": {"normalize": "none"},
}
METHODS = {**BASELINES, **ABLATIONS}
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
TUNING_SEEDS = (100, 101)
SEEDS = tuple(range(8))


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a method."""

    method: str
    learning_rate: float
    seed: int

    @property
    def run_id(self) -> str:
        name = self.method.lower().replace(",", "").replace(" ", "-")
        return f"{name}-lr{self.learning_rate:g}-s{self.seed}"

    def config(self) -> Config:
        own = {"learning_rate": self.learning_rate, "seed": self.seed, "run_id": self.run_id}
        return Config.from_flat({**SETTINGS, **METHODS[self.method], **own})


def tuning_jobs(method: str) -> list[Job]:
    return [Job(method, rate, seed) for rate in RATES for seed in TUNING_SEEDS]


def chosen_rate(runs_dir: Path, method: str) -> float | None:
    """The rate with the best mean success over evaluations and tuning seeds; None before all ended."""
    scores: dict[float, list[float]] = {}
    for job in tuning_jobs(method):
        run = finished(runs_dir, job)
        if run is None:
            return None
        scores.setdefault(job.learning_rate, []).append(mean_success(run))
    return max(RATES, key=lambda rate: float(np.mean(scores[rate])))


def mean_success(run: Run) -> float:
    """Success on unseen tasks, mean over the evaluations after training began."""
    return float(np.mean([row["success_rate"] for row in run.read_metrics("eval") if row["iteration"] > 0]))


def finished(runs_dir: Path, job: Job) -> Run | None:
    """The run of a job if it is complete; no folder is made for one that is not."""
    run = Run(runs_dir / job.run_id)
    if not run.has_config():
        return None
    status = run.read_status()
    return run if status is not None and status.state == "complete" else None


def play(runs_dir: Path, jobs: Sequence[Job], at_once: int) -> None:
    """Finish all jobs, `at_once` processes at a time. Raises RuntimeError after the rest is done."""
    waiting = [job for job in jobs if finished(runs_dir, job) is None]
    with ThreadPoolExecutor(at_once) as pool:
        codes = list(pool.map(partial(_train, runs_dir), waiting))
    failed = [job for job, code in zip(waiting, codes, strict=True) if code]
    if failed:
        names = ", ".join(job.run_id for job in failed)
        raise RuntimeError(f"failed: {names}; each run's train.log says why")


def _train(runs_dir: Path, job: Job) -> int:
    run = open_run(runs_dir, job.run_id)
    if not run.has_config():
        _share_warm_start(runs_dir, job, run)
    run.write_request(job.config())
    with (run.path / "train.log").open("ab") as log:
        code = subprocess.run(
            [sys.executable, "-m", "gagpo", "train", str(run.path)], stdout=log, stderr=subprocess.STDOUT
        ).returncode
    print(f"{job.run_id}: {f'exit status {code}' if code else f'{mean_success(run):.3f}'}", flush=True)
    return code


def _share_warm_start(runs_dir: Path, job: Job, run: Run) -> None:
    """Begin where a finished run of the seed began training: its own warm start would end just there.

    PPO makes its own, for a critic belongs to its checkpoints; the report checks that all are equal.
    """
    if METHODS[job.method].get("estimator") == "gae":
        return
    for donor in _finished_runs(runs_dir, job.seed):
        start = donor.path / "checkpoints" / "000000"
        if start.is_dir():
            shutil.copytree(start, run.path / "checkpoints" / "000000", dirs_exist_ok=True)
            shutil.copy(donor.path / "metrics.jsonl", run.path)  # what is later is dropped at the start
            (run.path / "steps").mkdir(exist_ok=True)
            shutil.copy(donor.path / "steps" / "000000.parquet", run.path / "steps")
            return


def _finished_runs(runs_dir: Path, seed: int) -> Iterable[Run]:
    for method, settings in METHODS.items():
        for rate in RATES if settings.get("estimator") != "gae" else ():
            run = finished(runs_dir, Job(method, rate, seed))
            if run is not None:
                yield run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/learning"))
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, one thread each")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    arguments = parser.parse_args()
    for method in arguments.methods:
        play(arguments.runs_dir, tuning_jobs(method), arguments.jobs)
        rate = chosen_rate(arguments.runs_dir, method)
        print(f"{method}: learning rate {rate:g}", flush=True)
        play(arguments.runs_dir, [Job(method, rate, seed) for seed in SEEDS], arguments.jobs)


if __name__ == "__main__":
    main()
