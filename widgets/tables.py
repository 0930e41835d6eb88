"""Tables of a run as inert HTML: every text is escaped, whatever a trajectory holds."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from gagpo.checked import unknown
from gagpo.facts import facts as facts_here
from gagpo.stats import measured
from gagpo.store import Run
from gagpo.table import Credit, Trajectory

STYLE = (
    "border-collapse:collapse;font-variant-numeric:tabular-nums;text-align:left;color:inherit;"
    "background:transparent"
)
LOG_CELL = 60
NOTHING_YET = "Run {run!r} has no recorded steps yet."
CELL = "padding:2px 8px;border-bottom:1px solid #8886;vertical-align:top;text-align:left"
# Okabe and Ito's vermilion below 0 and blue above, over whatever the page's ground is: at this strength
# the page's own ink stays legible on white and on black.
BELOW, ABOVE, STRONGEST = "213,94,0", "0,114,178", 0.55
# JupyterLab sets mathematics in outputs, and would take what stands between two prices for some.
NO_MATH = "mathjax_ignore tex2jax_ignore"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under column names, with a caption; shown as HTML, or as text in a log.

    `shades` has a number in [-1, 1] for each cell that is coloured, None for the others; without it
    nothing is. What a colour says, the cell's text must say too.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shades: tuple[tuple[float | None, ...], ...] = ()

    def _repr_html_(self) -> str:
        def line(tag: str, cells: Sequence[str], shades: Sequence[float | None]) -> str:
            pairs = zip(cells, shades, strict=True)
            inner = "".join(f'<{tag} style="{CELL}{_ground(s)}">{html.escape(c)}</{tag}>' for c, s in pairs)
            return f"<tr>{inner}</tr>"

        plain = (None,) * len(self.columns)
        shades = self.shades or (plain,) * len(self.rows)
        body = "".join(line("td", row, own) for row, own in zip(self.rows, shades, strict=True))
        return (
            f'<table class="{NO_MATH}" style="{STYLE}">'
            f'<caption style="text-align:left">{html.escape(self.caption)}</caption>'
            f"<thead>{line('th', self.columns, plain)}</thead><tbody>{body}</tbody></table>"
        )

    def __repr__(self) -> str:
        rows = [[_short(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([_line(self.caption), *lines])


@dataclass(frozen=True, slots=True)
class Tables:
    """Several tables, one below the other."""

    tables: tuple[Table, ...]

    def _repr_html_(self) -> str:
        return "<br>".join(table._repr_html_() for table in self.tables)

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.tables))


def example_trajectories(run: Run, iteration: int | None = None, num: int = 2) -> Tables:
    """Steps of `num` trajectories of an iteration (the last one recorded by default), with the
    arithmetic of their credit. A success and a failure of one task come first, if there are."""
    from gagpo.steps_file import read_credit, read_steps, read_trajectories, step_table

    iteration = run.recorded_iteration(iteration)
    if iteration is None:
        return Tables((Table(NOTHING_YET.format(run=run.run_id), (), ()),))
    rows = read_steps(run.steps_path(iteration))
    offsets = step_table(rows).offsets
    first = rows.take(offsets[:-1])
    tables = []
    for index in instructive(first["task_id"].to_pylist(), first["success"].to_pylist())[:num]:
        own = rows.slice(offsets[index], offsets[index + 1] - offsets[index])
        (trajectory,), credit = read_trajectories(own), read_credit(own)
        tables.append(credited_steps(trajectory, credit, f"Iteration {iteration}, "))
    return Tables(tuple(tables))


def credited_steps(trajectory: Trajectory, credit: Credit, before: str = "") -> Table:
    """A row for each step of a trajectory, with the arithmetic of its credit (its rows alone)."""
    caption = (
        f"{before}{trajectory.task_id}, sibling {trajectory.sibling}: {trajectory.goal} "
        f"It {how_it_ended(trajectory)}."
    )
    lines = [
        (str(t), step.observation, step.action, f"{step.reward:g}", *_numbers(credit, t))
        for t, step in enumerate(trajectory.steps)
    ]
    return Table(caption, COLUMNS, tuple(lines))


def how_it_ended(trajectory: Trajectory) -> str:
    """In words: success or not, and after how many steps."""
    ended = "reached the goal" if trajectory.success else f"failed ({trajectory.outcome.name.lower()})"
    return f"{ended} after {len(trajectory.steps)} steps"


COLUMNS = ("t", "observation", "action", "r", "return to go", "anchor size", "V(s)", "V(s')", "td error",
           "advantage", "normalized")  # fmt: skip


def _numbers(credit: Credit, row: int) -> tuple[str, ...]:
    names = ("value", "next_value", "td_error", "advantage", "normalized")
    floats = tuple(f"{getattr(credit, name)[row]:+.3f}" for name in names)
    return (f"{credit.return_to_go[row]:+.3f}", str(credit.anchor_size[row]), *floats)


def instructive(task_ids: Sequence[str], successes: Sequence[bool]) -> list[int]:
    """Indices of trajectories; first a success and a failure of the same task."""
    by_task: dict[str, dict[bool, int]] = {}
    for i, (task_id, success) in enumerate(zip(task_ids, successes, strict=True)):
        by_task.setdefault(task_id, {}).setdefault(success, i)
    mixed = next((outcomes for outcomes in by_task.values() if len(outcomes) == 2), {})
    first = [mixed[True], mixed[False]] if mixed else []
    return first + [i for i in range(len(task_ids)) if i not in first]


def siblings_of(trajectories: Sequence[Trajectory], task: str | None = None) -> list[int]:
    """The places of a task's trajectories, a success and a failure first if there are. Without `task`
    it is the first one whose siblings differ in success, else the first."""
    tasks, wins = [t.task_id for t in trajectories], [t.success for t in trajectories]
    if task is None:
        task = tasks[instructive(tasks, wins)[0]]
    elif task not in tasks:
        raise ValueError(f"{unknown('task', task, tasks)}; expected one of the {len(set(tasks))} recorded")
    places = [i for i, own in enumerate(tasks) if own == task]
    return [places[j] for j in instructive([task] * len(places), [wins[i] for i in places])]


def metrics_table(run: Run, last: int = 1) -> Table:
    """Every metric of the last `last` training iterations, a row each."""
    records = run.read_metrics("train")[-last:]
    names = [name for name in (records[-1] if records else {}) if name not in ("stage", "time", "iteration")]
    rows = tuple((name, *(_cell(measured(record, name)) for record in records)) for name in names)
    return Table("Metrics of training", ("metric", *(f"iteration {r['iteration']}" for r in records)), rows)


def versions_table(run: Run | None = None) -> Table:
    """What the run was made with, or this notebook where none is given."""
    facts = facts_here() if run is None else run.read_facts()
    rows = [*facts["versions"].items(), ("commit", facts["commit"]), ("platform", facts["platform"])]
    return Table("Made with", ("what", "version"), tuple((str(a), str(b)) for a, b in rows))


def _ground(shade: float | None) -> str:
    """The style of a cell's ground; NaN has none."""
    if shade is None or not shade or shade != shade:
        return ""
    colour = ABOVE if shade > 0 else BELOW
    return f";background:rgba({colour},{STRONGEST * min(abs(shade), 1):.2f})"


def _line(text: str) -> str:
    """One line for a log, without what could steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))


def _short(cell: str) -> str:
    """The beginning of a cell for a log; the HTML has it whole."""
    line = _line(cell)
    return line if len(line) <= LOG_CELL else line[: LOG_CELL - 1] + "…"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
