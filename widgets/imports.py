"""Another project's trajectories, under every state key on offer: what was read, and what can be learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.diagnostics import Diagnostics, diagnose
from gagpo.importers import Imported, detect_format, import_file
from gagpo.importers.keys import KEYS
from gagpo.importers.own_steps import OWN_KEYS
from gagpo.importers.run_folder import by_version
from gagpo.stats import sharing_metrics
from gagpo.table import Credit, Outcome, StepTable, Trajectory
from widgets.diagnosis import percent, weight_rows
from widgets.lab_settings import LabSettings
from widgets.session import visible
from widgets.tables import Table, Tables, credited_steps, siblings_of

EXAMPLE = Path(__file__).with_name("example_chats.jsonl")


@dataclass(frozen=True, slots=True, eq=False)
class Recordings:
    """A file that was imported, once for each state key.

    key      the one that credit is assigned by
    by_key   {state key: the import, or why it cannot be made}
    note     which of several policies the trajectories are of, if there are several
    task     the one to look at; None takes one whose siblings differ
    """

    path: Path
    key: str
    by_key: Mapping[str, Imported | ValueError]
    note: str
    task: str | None = None

    @property
    def chosen(self) -> Imported:
        """The import by `key`."""
        return self.by_key[self.key]

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """Those of the chosen import."""
        return self.chosen.trajectories

    @property
    def told(self) -> str:
        """Where the trajectories come from, in words."""
        return f"{self.path.name}, states by {self.key}" + (f", {self.note}" if self.note else "")


def read_recordings(lab: LabSettings) -> Recordings:
    """The file `lab.trajectories`, else the example that ships with this package.

    Where several policies acted, only the last one's trajectories are kept: siblings are compared
    only where one policy acted."""
    path = EXAMPLE if lab.trajectories is None else Path(lab.trajectories)
    options = lab.options()
    format = lab.trajectory_format or detect_format(path, options.max_entry_bytes)
    chosen = import_file(path, options, format)
    by_key: dict[str, Imported | ValueError] = {}
    for key in OWN_KEYS if format == "steps" else KEYS:
        try:
            by_key[key] = chosen if key == chosen.state_key else import_file(path, lab.options(key), format)
        except ValueError as error:
            by_key[key] = error
    versions = sorted({trajectory.policy_version for trajectory in chosen.trajectories})
    note = f"policy version {versions[-1]}, the last of {len(versions)}" if len(versions) > 1 else ""
    kept = {key: _last_version(made) for key, made in by_key.items()}
    task = None if lab.trajectories is None else lab.task  # which need not be one of the example's
    return Recordings(path, chosen.state_key, kept, note, task)


def report_table(recordings: Recordings) -> Table:
    """What was read, and what was left out for which reason."""
    made, table = recordings.chosen, recordings.chosen.table()
    cut = sum(trajectory.outcome == Outcome.TRUNCATED for trajectory in made.trajectories)
    rows = [
        ("file", recordings.path.name),
        ("format", made.format),
        ("states by", made.state_key),
        *([("policy", recordings.note)] if recordings.note else []),
        ("trajectories", f"{table.num_trajectories:,}"),
        ("tasks", f"{len(set(table.group.tolist())):,}"),
        ("steps", f"{table.num_steps:,}"),
        ("successes", f"{int(table.success.sum()):,}"),
        ("cut by a limit", f"{cut:,}"),
        ("steps that were not valid", f"{int((~table.valid).sum()):,}"),
        *((f"left out: {visible(reason)}", f"{num:,}") for reason, num in sorted(made.dropped.items())),
    ]
    return Table("What was read", ("what", "how many"), tuple(rows))


def overview_table(recordings: Recordings) -> Table:
    """A row for each task: how its siblings ended, and whether that leaves something to compare."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in recordings.trajectories:
        groups.setdefault(trajectory.task_id, []).append(trajectory)
    rows = []
    for task, own in groups.items():
        wins, lengths = sum(t.success for t in own), [len(t.steps) for t in own]
        kind = "all fail" if wins == 0 else "all succeed" if wins == len(own) else "siblings differ"
        mean = np.mean([t.total_reward for t in own])
        spread = f"{min(lengths)} to {max(lengths)}"
        rows.append(
            (visible(task), visible(own[0].goal), str(len(own)), str(wins), f"{mean:.3g}", spread, kind)
        )
    columns = ("task", "goal", "siblings", "successes", "mean reward", "steps", "outcome")
    kinds = ", ".join(f"{sum(row[-1] == k for row in rows)} {k}" for k in dict.fromkeys(r[-1] for r in rows))
    return Table(f"{len(groups)} tasks: {kinds}", columns, tuple(rows))


def keys_on_offer(recordings: Recordings, config: CreditConfig) -> Table:
    """What each state key leaves to compare, and what the signal is then made of."""
    rows = []
    for key, made in recordings.by_key.items():
        if isinstance(made, ValueError):
            rows.append(_impossible(key, made))
            continue
        try:
            table, _, found = _diagnosed(made, config)
        except ValueError as error:
            rows.append(_impossible(key, error))
            continue
        states = {*zip(table.group[table.trajectory].tolist(), table.state.tolist(), strict=True)}
        shares = sharing_metrics(table)
        names = ("shared_share", "later_shared_share", "state_repeat_share")
        penalty = found.signals.penalty
        rows.append((
            key, f"{len(states):,}", *(f"{shares[name]:.1%}" for name in names),
            f"{found.num_singletons:,} ({percent(found.singleton_share)})",
            f"{len(found.zero_sigma_groups):,} ({percent(found.zero_sigma_share)})",
            f"{penalty.num_groups:,}", percent(penalty.absolute_share), "",
        ))  # fmt: skip
    return Table(f"State keys, with the credit of {config.estimator}", KEY_COLUMNS, tuple(rows))


KEY_COLUMNS = (
    *("state key", "states", "shared", "beyond start", "repeated", "singletons"),
    *("groups without signal", "groups with penalties alone", "penalties' part of |A|", "note"),
)


def loss_weights(recordings: Recordings, config: CreditConfig) -> Table:
    """How much of the loss a trajectory makes, the shortest to the longest, under each mean."""
    rows = weight_rows(_diagnosed(recordings.chosen, config)[2])
    return Table("A trajectory's weight in the loss", ("mean over", "least", "median", "most"), rows)


def credited_siblings(recordings: Recordings, config: CreditConfig, num: int = 2) -> Tables:
    """`num` siblings step by step, with the arithmetic of their credit; a success and a failure come
    first, if there are."""
    made = recordings.chosen
    table, credit, _ = _diagnosed(made, config)
    tables = []
    for i in siblings_of(made.trajectories, recordings.task)[:num]:
        rows = slice(table.offsets[i], table.offsets[i + 1])
        tables.append(credited_steps(_inert(made.trajectories[i]), part_of(credit, rows)))
    return Tables(tuple(tables))


def part_of(credit: Credit, rows: slice) -> Credit:
    """These rows of the credit."""
    return Credit(**{name: getattr(credit, name)[rows] for name in Credit.__slots__})


def _diagnosed(made: Imported, config: CreditConfig) -> tuple[StepTable, Credit, Diagnostics]:
    """Table, credit and findings, with the import's own states."""
    table, config = made.table(), replace(config, state_key="exact")
    credit = assign_credit(table, config)
    counts = [len(step.action_ids) for trajectory in made.trajectories for step in trajectory.steps]
    return table, credit, diagnose(table, credit, config, num_tokens=counts if min(counts) > 0 else None)


def _impossible(key: str, error: ValueError) -> tuple[str, ...]:
    return (key, *[""] * (len(KEY_COLUMNS) - 2), visible(str(error)))


def _inert(trajectory: Trajectory) -> Trajectory:
    """The same without marks that could steer a page."""
    steps = tuple(
        replace(step, observation=visible(step.observation), action=visible(step.action))
        for step in trajectory.steps
    )
    texts = {name: visible(getattr(trajectory, name)) for name in ("task_id", "goal")}
    return replace(trajectory, steps=steps, **texts)


def _last_version(made: Imported | ValueError) -> Imported | ValueError:
    """The trajectories of the last policy; what was left out is told of the whole file."""
    return made if isinstance(made, ValueError) else replace(by_version(made)[-1], dropped=made.dropped)
