"""One set of trajectories under every estimator and under every state key, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.diagnostics import Mismatch, diagnose
from gagpo.fidelity import correlation
from gagpo.table import Credit
from widgets.diagnosis import percent
from widgets.recorded import Recorded
from widgets.session import visible
from widgets.tables import Table, Tables, how_it_ended, siblings_of

SHORT = 60  # characters of a state's name or an action beside the numbers


def every_credit(recorded: Recorded, config: CreditConfig) -> tuple[dict[str, Credit], dict[str, ValueError]]:
    """{estimator: credit} of all trajectories, and {estimator: why it cannot be had}."""
    table = recorded.table(config)
    made, refused = {}, {}
    for name in ESTIMATORS:
        try:
            made[name] = assign_credit(table, replace(config, estimator=name))
        except ValueError as error:
            refused[name] = error
    return made, refused


def side_by_side(
    recorded: Recorded, config: CreditConfig, task: str | None = None, num_shown: int = 4
) -> Tables:
    """`num_shown` siblings of a task, a table each: the credit that every estimator gives each step.

    Numbers are `Credit.normalized`, what the loss uses, under the settings of `config`; `true A` is
    in units of reward. The colour of a number is its share of the largest |number| of its column
    among all siblings: blue above 0, vermilion below. `visits` counts the steps of the group in
    that state.
    """
    made, refused = every_credit(recorded, config)
    columns = {("gae, true V" if name == "gae" else name): c.normalized for name, c in made.items()}
    if recorded.truth is not None:
        columns["true A"] = recorded.truth(config.gamma).advantage
    group = siblings_of(recorded.trajectories, task)
    starts = np.cumsum([0, *(len(trajectory.steps) for trajectory in recorded.trajectories)])
    rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in group])
    largest = [np.abs(column[rows]).max() for column in columns.values()]
    anchors = next(iter(made.values()))
    names = _state_names(recorded, anchors.anchor, rows)
    tables = [_about(recorded, group)]
    for i in group[:num_shown]:
        trajectory, lines, shades = recorded.trajectories[i], [], []
        for row, (t, step) in enumerate(enumerate(trajectory.steps), int(starts[i])):
            visits = str(anchors.anchor_size[row])
            numbers = [float(column[row]) for column in columns.values()]
            where = (str(t), names[row], visits, shortened(step.action), f"{step.reward:g}")
            lines.append((*where, *(f"{number:+.2f}" for number in numbers)))
            scaled = (x / most if most else 0.0 for x, most in zip(numbers, largest, strict=True))
            shades.append((*[None] * len(where), *scaled))
        caption = f"sibling {trajectory.sibling}: it {how_it_ended(trajectory)}"
        head = ("t", "state", "visits", "action", "r", *columns)
        tables.append(Table(caption, head, tuple(lines), tuple(shades)))
    if refused:
        why = tuple((name, visible(str(error))) for name, error in refused.items())
        tables.append(Table("Left out", ("estimator", "why"), why))
    return Tables(tuple(tables))


def compare_keys(recorded: Recorded, config: CreditConfig, keys: Sequence[str]) -> Table:
    """The same trajectories under each state key: what stays alone, what is joined or parted wrongly,
    and how the advantages of `config.estimator` correlate with the true ones. What is not known is
    left blank."""
    true_states = None
    if recorded.states_are_true:
        true_states = [step.state_key for trajectory in recorded.trajectories for step in trajectory.steps]
    rows = []
    for key in keys:
        config = replace(config, state_key=key)
        table = recorded.table(config)
        credit = assign_credit(table, config)
        found = diagnose(table, credit, config, true_states=true_states)
        agrees = ""
        if recorded.truth is not None:
            agrees = f"{correlation(credit.normalized, recorded.truth(config.gamma).advantage):.2f}"
        num = sum(num for _, num in found.anchor_sizes)
        alone = f"{found.num_singletons:,} ({percent(found.singleton_share)})"
        rows.append((key, f"{num:,}", alone, _shares(found.aliasing), _shares(found.splitting), agrees))
    columns = ("state key", "anchor groups", "steps alone in theirs", "aliasing: steps joined wrongly",
               "splitting: steps parted wrongly", "correlation with the true A")  # fmt: skip
    return Table(f"{config.estimator}: {visible(recorded.told)}", columns, tuple(rows))


def _about(recorded: Recorded, group: Sequence[int]) -> Table:
    first = recorded.trajectories[group[0]]
    row = (recorded.told, first.task_id, first.goal, str(len(group)))
    columns = ("source", "task", "goal", "siblings")
    return Table("Whose credit this is", columns, (tuple(map(visible, row)),))


def shortened(text: str) -> str:
    """A line of text that fits beside numbers."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= SHORT else line[: SHORT - 1] + "…"


def _state_names(recorded: Recorded, anchor: np.ndarray, rows: np.ndarray) -> dict[int, str]:
    """{row: its state}: the recorded name where it is the environment's, else a number by first visit."""
    numbers: dict[int, int] = {}
    names = {int(row): f"state {numbers.setdefault(int(anchor[row]), len(numbers))}" for row in rows}
    if recorded.states_are_true:
        keys = [step.state_key for trajectory in recorded.trajectories for step in trajectory.steps]
        names = {row: shortened(keys[row]) for row in names}
    return names


def _shares(mismatch: Mismatch | None) -> str:
    return "" if mismatch is None else f"{mismatch.num_steps:,} ({percent(mismatch.share_of_steps)})"
