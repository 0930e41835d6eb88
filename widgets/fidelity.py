"""How far estimators are from the truth: measured here, and read from the recorded benchmark."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import gagpo
from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS
from gagpo.fidelity_cell import Cell, CellResult, Row, run_cell
from gagpo.forks import Estimate
from widgets.graph import label
from widgets.plots import COLOURS, DASHES, finish, show
from widgets.session import visible
from widgets.tables import Table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MEASURES = {
    "correlation": "correlation",
    "sign_agreement": "sign agreement",
    "top_precision": "top-decile precision",
    "cosine": "gradient cosine",
    "bias": "bias",
    "spread": "spread",
}
ERRORS = ("bias", "spread")
SWEPT = {"num_siblings": "siblings K", "gamma": "gamma", "unique_share": "share of states made unique"}
DRAWN = ("gae exact", "gated_bepo", "gagpo", "reinforce", "gigpo", "grpo")
ENDS = ("", "_low", "_high")
FILES = ("credit_fidelity.csv", "credit_fidelity_cells.csv")


def measure(cell: Cell, config: CreditConfig) -> CellResult:
    """Every estimator on the same batches of `cell`, under the settings of `config`.

    The critic of "gae" is the truth, for which an end by the limit is worth 0: it is "terminal" there.
    """
    settings = {name: value for name, value in asdict(config).items() if name != "gamma"}
    variants = {name: settings | {"estimator": name} for name in ESTIMATORS}
    variants["gae"] = variants["gae"] | {"truncation": "terminal"}
    return run_cell(cell, variants)


def fidelity_table(result: CellResult) -> Table:
    """Each estimator's measures, with 95 % intervals over the batches."""
    rows = []
    for name, row in result.rows.items():
        rows.append((name, *(_told(measure, _estimate(row, measure)) for measure in MEASURES)))
    cell = result.cell
    caption = (
        f"{cell.env}: {cell.num_batches} batches of {cell.num_tasks} tasks, {cell.num_siblings} siblings "
        f"each; {result.success:.0%} of the episodes succeed, {result.singleton_share:.0%} of the steps are "
        "alone in their state"
    )
    return Table(caption, ("estimator", *MEASURES.values()), tuple(rows))


def fidelity_figure(result: CellResult) -> Figure:
    """The same as points with their intervals, a panel for each measure."""
    from plotly.subplots import make_subplots

    titles = list(MEASURES.values())
    figure = make_subplots(rows=2, cols=3, subplot_titles=titles, shared_yaxes=True, vertical_spacing=0.14)
    names = list(result.rows)
    for number, measure in enumerate(MEASURES):
        found = [_estimate(row, measure) for row in result.rows.values()]
        figure.add_scatter(
            x=[_or_none(e.mean) for e in found],
            y=[label(name) for name in names],
            error_x=_bars(found),
            mode="markers",
            marker={"color": COLOURS[0], "size": 8},
            showlegend=False,
            name=MEASURES[measure],
            row=number // 3 + 1,
            col=number % 3 + 1,
        )
    finish(figure, "How far every estimator is from the truth")
    figure.update_layout(height=560, margin={"l": 90})
    figure.update_yaxes(autorange="reversed")
    return figure


def show_recorded(folder: Path | None = None) -> Table:
    """Draw the recorded benchmark, and return its numbers for the usual setting.

    Without `folder` it is looked for in the checkout that this package lies in; a table of one line says
    so where it is not there."""
    folder = folder or Path(gagpo.__file__).resolve().parents[1] / "docs" / "results"
    if not all((folder / name).is_file() for name in FILES):
        made = "python benchmarks/credit_fidelity.py makes it in a checkout"
        return Table(f"No recorded benchmark in {visible(str(folder))}; {made}.", (), ())
    cells, lines = (read_lines(folder / name) for name in reversed(FILES))
    show(sweeps_figure(cells, lines))
    usual = [cell["cell"] for cell in swept_cells(cells, "num_siblings") if _is_usual(cell, cells)]
    rows = [
        (visible(line["estimator"]), *(_told(measure, _recorded(line, measure)) for measure in MEASURES))
        for line in lines
        if line["cell"] in usual[:1]
    ]
    caption = (
        f"From docs/results/{FILES[0]}, made by benchmarks/credit_fidelity.py: {len(cells)} settings, "
        f"{len(lines)} lines; here the setting that its sweeps start from"
    )
    return Table(caption, ("estimator", *MEASURES.values()), tuple(rows))


def sweeps_figure(cells: Sequence[dict[str, str]], lines: Sequence[dict[str, str]]) -> Figure:
    """The gradient's cosine against each setting of `SWEPT`, the others being as usual."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(SWEPT), subplot_titles=list(SWEPT.values()), shared_yaxes=True)
    for column, varied in enumerate(SWEPT, 1):
        own = {cell["cell"]: cell[varied] for cell in swept_cells(cells, varied)}
        for number, name in enumerate(DRAWN):
            by_cell = {line["cell"]: line for line in lines if line["estimator"] == name}
            kept = [by_cell[cell] for cell in own if cell in by_cell]
            found = [_recorded(line, "cosine") for line in kept]
            figure.add_scatter(
                x=[label(f"{float(own[line['cell']]):g}") for line in kept],
                y=[_or_none(e.mean) for e in found],
                error_y=_bars(found),
                name=label(name),
                legendgroup=name,
                showlegend=column == 1,
                line={"color": COLOURS[number], "dash": DASHES[number]},
                row=1,
                col=column,
            )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title_text="gradient cosine", col=1)
    return finish(figure, "The recorded benchmark: the gradient's cosine with the true one")


def swept_cells(cells: Sequence[dict[str, str]], varied: str) -> list[dict[str, str]]:
    """The cells that are as usual but for `varied`, in its order."""
    own = [cell for cell in cells if _is_usual(cell | {varied: _usual(cells)[varied]}, cells)]
    return sorted(own, key=lambda cell: float(cell[varied]))


def _is_usual(cell: dict[str, str], cells: Sequence[dict[str, str]]) -> bool:
    return all(cell[name] == value for name, value in _usual(cells).items())


def _usual(cells: Sequence[dict[str, str]]) -> dict[str, str]:
    """The value that each setting has most often; the number of batches is none of them."""
    names = [name for name in asdict(Cell()) if name != "num_batches"]
    return {name: Counter(cell[name] for cell in cells).most_common(1)[0][0] for name in names}


def read_lines(path: Path) -> list[dict[str, str]]:
    """The lines of one of `FILES`. ValueError where it lacks what is read of it."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    measures = [measure + end for measure in MEASURES for end in ENDS]
    needed = ["cell", *(asdict(Cell()) if path.name == FILES[1] else ("estimator", *measures))]
    lacks = [name for name in needed if not lines or lines[0].get(name) is None]
    if lacks:
        raise ValueError(f"{path}: lacks {', '.join(lacks)}; expected a table of credit_fidelity.py")
    return lines


def _recorded(line: dict[str, str], measure: str) -> Estimate:
    return Estimate(*(float(line[measure + end] or "nan") for end in ENDS))


def _estimate(row: Row, measure: str) -> Estimate:
    return getattr(row.errors if measure in ERRORS else row, measure)


def _told(measure: str, found: Estimate) -> str:
    if math.isnan(found.mean):
        return "–"
    mean, low, high = (f"{value:.{2 if measure in ERRORS else 3}f}" for value in found)
    return f"{mean} ({low} to {high})"


def _bars(found: Sequence[Estimate]) -> dict:
    return {
        "type": "data",
        "symmetric": False,
        "array": [_or_none(e.high - e.mean) for e in found],
        "arrayminus": [_or_none(e.mean - e.low) for e in found],
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
