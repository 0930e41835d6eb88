"""A small recorded run that reviewers can annotate, and annotations as lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.store import Run
from gagpo.table import Outcome, Step, StepTable, Trajectory
from gagpo.targets import Target

TASKS = ("pick up", "=1+1")


def trajectory(task: str, sibling: int, length: int, goal: str = "Put it away.") -> Trajectory:
    """Step s shows "room <s> é𝄞" and says "go <s>"; the last one earns 1 for sibling 0, else -1."""
    steps = tuple(
        Step(
            observation=f"room {s} é𝄞",
            state_key=f"{s}",
            admissible=(f"go {s}",),
            action=f"go {s}",
            prompt_ids=(),
            action_ids=(1,),
            logprobs=(-0.5,),
            reward=(1.0 if sibling == 0 else -1.0) if s == length - 1 else 0.0,
            valid=True,
        )
        for s in range(length)
    )
    outcome = Outcome.TERMINATED if sibling == 0 else Outcome.TRUNCATED
    return Trajectory(task, sibling, 7, steps, outcome, sibling == 0, goal, "the end", "end")


def write_iteration(run: Run, iteration: int, trajectories: list[Trajectory]) -> None:
    table = StepTable.from_trajectories(trajectories)
    old = [np.zeros(1, np.float32)] * table.num_steps
    run.write_steps(iteration, trajectories, table, assign_credit(table, CreditConfig()), old)


def make_run(folder: Path, num_siblings: int = 2) -> Run:
    """Iteration 1 of two tasks; sibling i acts i + 2 times."""
    run = Run(folder)
    run.path.mkdir(parents=True)
    own = [trajectory(task, i, i + 2) for task in TASKS for i in range(num_siblings)]
    write_iteration(run, 1, own)
    return run


def targets(num_siblings: int = 2) -> list[Target]:
    return [Target(1, task, i) for task in TASKS for i in range(num_siblings)]


def line(number: int, reviewer: str = "ann", kind: str = "answer", **own: Any) -> dict[str, Any]:
    """A record as JSON; its id and its microsecond are `number`."""
    if kind == "answer":
        own = {"question": "outcome", "value": "solved"} | own
    record = {"id": f"id{number:08d}", "time": f"2026-12-03T14:00:00.{number:06d}Z", "reviewer": reviewer}
    return record | {"kind": kind, "target": "iteration=1&task=pick%20up&sibling=0"} | own


def write_lines(run: Run, reviewer: str, records: list[dict[str, Any]]) -> Path:
    path = run.path / "annotations" / f"{reviewer}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
