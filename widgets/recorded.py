"""Trajectories whose credit is looked at: played here, of a run folder, or of another project's file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from gagpo.board import policies
from gagpo.checked import unknown
from gagpo.config import Config, CreditConfig, RolloutConfig, WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.exact import Policy, State
from gagpo.fidelity_cell import NO_LIMIT, Cell, prepare
from gagpo.launch import default_runs_dir
from gagpo.oracle import TrueValues, values_of_steps
from gagpo.rollout import collect
from gagpo.state_actor import StateActor
from gagpo.steps_file import read_steps, read_trajectories
from gagpo.store import Run
from gagpo.table import StepTable, Trajectory
from gagpo.what_if import RecordedSteps, open_steps
from widgets.imports import read_recordings
from widgets.lab_settings import LabSettings


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Trajectories, siblings side by side, and what is known about them.

    told              where they come from, in words
    states_are_true   the recorded state keys are the environment's own
    truth             from gamma to the true values of the steps; None where nobody knows them
    """

    trajectories: tuple[Trajectory, ...]
    told: str
    states_are_true: bool
    truth: Callable[[float], TrueValues] | None = None
    steps: RecordedSteps = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", open_steps(self.trajectories))

    def table(self, config: CreditConfig) -> StepTable:
        """The columns for credit; where the truth is known it is also what the critic says."""
        table = self.steps.table_for(config)
        if self.truth is None:
            return table
        after_the_end = np.zeros(table.num_trajectories)  # the truth's, where a limit cuts, too
        return replace(table, critic_value=self.truth(config.gamma).value, critic_final=after_the_end)


def gather_recorded(config: Config, lab: LabSettings, run_id: str = "") -> Recorded:
    """Those of the file `lab.trajectories`, else those of the run, else new ones, played here and now."""
    if lab.trajectories is not None:
        recordings = read_recordings(lab)
        return Recorded(recordings.trajectories, recordings.told, states_are_true=False)
    if run_id:
        return of_run(lab.runs_dir or default_runs_dir(), run_id, lab.iteration)
    return played(lab.cell(config))


def of_run(runs_dir: str | Path, run_id: str, iteration: int | None = None) -> Recorded:
    """An iteration's trajectories. Nobody knows the truth about the policy that played them."""
    folder = Path(runs_dir)
    there = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if run_id not in there:
        raise ValueError(f"run_id: {unknown('run', run_id, there)}; expected a folder in {folder}")
    run = Run(folder / run_id)
    iteration = run.recorded_iteration(iteration)
    if iteration is None:
        raise ValueError(f"run_id: {run_id!r} has no recorded steps yet")
    read = read_trajectories(read_steps(run.steps_path(iteration)))
    own = run.read_config().world.env != "imported"
    return Recorded(tuple(read), f"iteration {iteration} of run {run_id}", states_are_true=own)


def played(cell: Cell) -> Recorded:
    """Siblings of the tasks of `cell` under its policy, whose truth is exact: V, Q and A of that policy
    with as many steps left as there were."""
    board, chance = prepare(cell)
    policy = _by_task(board.tasks, policies(board, chance))
    world = make_world(WorldConfig(env=cell.env, max_steps=cell.horizon))
    how = {"num_siblings": cell.num_siblings, "temperature": 1.0, "seed": (cell.seed,)}
    trajectories = tuple(collect(world, StateActor(policy), board.tasks, RolloutConfig(), **how))
    boundless = make_world(WorldConfig(env=cell.env, max_steps=NO_LIMIT))

    @cache
    def truth(gamma: float) -> TrueValues:
        return values_of_steps(trajectories, boundless, policy, gamma, step_limit=cell.horizon)

    skill = "a uniform policy" if cell.success is None else f"a policy that succeeds in {cell.success:.0%}"
    told = f"{cell.env}, played here by {skill}: {len(board.tasks)} tasks, {cell.num_siblings} siblings each"
    return Recorded(trajectories, told, states_are_true=True, truth=truth)


def _by_task(tasks: Sequence[str], policies: Sequence[Policy]) -> Policy:
    known = dict(zip(tasks, policies, strict=True))

    def policy(state: State) -> Sequence[float]:
        return known[state.task_id](state)

    return policy
