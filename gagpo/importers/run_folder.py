"""Imported trajectories as a run folder, so that whatever reads runs can open them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from gagpo.config import Config, CreditConfig, RunConfig, WorldConfig
from gagpo.credit import assign_credit
from gagpo.facts import facts
from gagpo.importers.collect import imported as ordered
from gagpo.importers.records import Imported
from gagpo.stats import credit_metrics, rollout_metrics, sharing_metrics
from gagpo.store import Run, open_run
from gagpo.table import Credit, StepTable


def write_run(imported: Imported, path: str | Path, credit: CreditConfig | None = None) -> Run:
    """Write the trajectories with their credit as a complete run; `path` is a folder that holds none yet.

    Siblings are compared only where one policy acted: every recorded policy version becomes an
    iteration of its own, counted from 1 in their order. The recorded state keys stand for the states.
    """
    path = Path(path)
    run = open_run(path.parent, path.name)
    if run.has_config() or run.iterations_with_steps():
        raise ValueError(f"{path}: holds a run already; expected a new folder")
    parts = by_version(imported)
    config = Config(
        world=WorldConfig(env="imported"),
        credit=replace(credit or CreditConfig(), state_key="exact"),
        run=RunConfig(run_id=run.run_id, iterations=len(parts)),
    )
    with run.lock():
        run.write_status("running", 0, len(parts))
        run.write_config(config, facts() | {"imported": imported.facts()})
        for iteration, part in enumerate(parts, 1):
            start = time.perf_counter()
            table = part.table()
            made = assign_credit(table, config.credit)
            run.write_steps(iteration, part.trajectories, table, made, part.old_logprobs)
            run.append_metrics("train", iteration, _metrics(part, table, made) | _seconds(start))
        run.write_status("complete", len(parts), len(parts))
    return run


def by_version(imported: Imported) -> list[Imported]:
    """The trajectories of each policy version, ascending."""
    parts: dict[int, list] = {}
    start = 0
    for trajectory in imported.trajectories:
        end = start + len(trajectory.steps)
        pair = (trajectory, imported.old_logprobs[start:end])
        parts.setdefault(trajectory.policy_version, []).append(pair)
        start = end
    return [ordered(imported.format, imported.state_key, parts[version], {}) for version in sorted(parts)]


def _metrics(part: Imported, table: StepTable, credit: Credit) -> dict[str, float]:
    return rollout_metrics(part.trajectories) | credit_metrics(table, credit) | sharing_metrics(table)


def _seconds(start: float) -> dict[str, float]:
    return {"iteration_s": time.perf_counter() - start}
