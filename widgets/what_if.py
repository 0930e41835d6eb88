"""What lambda and gamma do to the credit of recorded steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from gagpo.config import CreditConfig
from gagpo.fidelity_cell import Cell, run_cell
from gagpo.what_if import sweep
from widgets.graph import label
from widgets.plots import COLOURS, DASHES, finish
from widgets.recorded import Recorded
from widgets.tables import Table, Tables, how_it_ended, siblings_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LAMBDAS = (0.0, 0.5, 0.8, 0.95, 1.0)
GAMMAS = (0.8, 0.9, 0.95, 0.99, 1.0)
GRIDS = {
    "correlation": "correlation of a step's advantage with the true one",
    "cosine": "cosine of a batch's gradient with the true one",
    "cosine_return": "cosine of a batch's gradient with that of the expected sum of rewards",
}


def lambda_curves(
    recorded: Recorded, config: CreditConfig, task: str | None = None, lambdas: Sequence[float] = LAMBDAS
) -> Figure:
    """GAGPO's advantage over the steps of two siblings, a curve for each lambda.

    Rings are R_t - V(s_t), which lambda 1 amounts to, crosses td errors, which lambda 0 does, as long as
    no episode term, bootstrapped end or penalty outside of r_t is asked for.
    """
    credits = sweep(recorded.steps, replace(config, estimator="gagpo"), "lam", lambdas)
    curves = {_lambda_name(lam): credit.advantage for lam, credit in credits.items()}
    some = credits[lambdas[0]]
    marks = {"R − V(s)": some.return_to_go - some.value, "td error": some.td_error}
    return _curves(recorded, curves, marks, task, "Advantage of every step as lambda goes up")


def gamma_curves(
    recorded: Recorded, config: CreditConfig, task: str | None = None, gammas: Sequence[float] = GAMMAS
) -> Figure:
    """GAGPO's advantage over the steps of two siblings, a curve for each gamma."""
    credits = sweep(recorded.steps, replace(config, estimator="gagpo"), "gamma", gammas)
    curves = {f"γ {gamma:g}": credit.advantage for gamma, credit in credits.items()}
    return _curves(recorded, curves, {}, task, "Advantage of every step as gamma goes up")


def agreement_grids(
    cell: Cell, config: CreditConfig, lambdas: Sequence[float] = LAMBDAS, gammas: Sequence[float] = GAMMAS
) -> Tables:
    """How well GAGPO agrees with the truth for each pair of lambda and gamma, on the batches of `cell`.

    Step by step (the correlation of the advantages), and as a whole (the cosine of a batch's gradient):
    means over the batches. The truth is that of the same gamma, and of gamma 1 in the last table: there
    the wanted gradient is that of the undiscounted return.
    """
    settings = {name: value for name, value in asdict(config).items() if name not in ("gamma", "lam")}
    variants = {f"λ {lam:g}": settings | {"estimator": "gagpo", "lam": lam} for lam in lambdas}
    found = {f"γ {gamma:g}": run_cell(replace(cell, gamma=gamma), variants).rows for gamma in gammas}
    tables = []
    for measure, told in GRIDS.items():
        means = [[getattr(row, measure).mean for row in rows.values()] for rows in found.values()]
        lines = [(name, *(f"{x:.3f}" for x in own)) for name, own in zip(found, means, strict=True)]
        shades = tuple((None, *own) for own in means)
        tables.append(Table(f"{cell.env}: {told}", ("", *variants), tuple(lines), shades))
    return Tables(tuple(tables))


def _lambda_name(lam: float) -> str:
    return {0.0: "λ 0 = td error", 1.0: "λ 1 = R − V(s)"}.get(lam, f"λ {lam:g}")


def _curves(
    recorded: Recorded,
    curves: dict[str, Sequence[float]],
    marks: dict[str, Sequence[float]],
    task: str | None,
    text: str,
) -> Figure:
    """Columns over all steps, drawn for the first two siblings, a success and a failure if there are both."""
    from plotly.subplots import make_subplots

    offsets = recorded.steps.table.offsets
    shown = siblings_of(recorded.trajectories, task)[:2]
    own = [recorded.trajectories[i] for i in shown]
    titles = [label(f"sibling {t.sibling}: it {how_it_ended(t)}") for t in own]
    figure = make_subplots(rows=1, cols=len(shown), subplot_titles=titles, shared_yaxes=True)
    for column, i in enumerate(shown, 1):
        rows = slice(int(offsets[i]), int(offsets[i + 1]))
        for number, (name, values) in enumerate((curves | marks).items()):
            drawn = values[rows]
            look = {"line": {"color": COLOURS[number % 6], "dash": DASHES[number % 6]}, "mode": "lines"}
            if name in marks:
                symbol = ("circle-open", "x-thin-open")[list(marks).index(name)]
                look = {"mode": "markers", "marker": {"symbol": symbol, "size": 10, "color": "#808080"}}
            figure.add_scatter(
                x=list(range(len(drawn))),
                y=[float(value) for value in drawn],
                name=name,
                legendgroup=name,
                showlegend=column == 1,
                row=1,
                col=column,
                **look,
            )
    figure.update_xaxes(title_text="step")
    figure.update_yaxes(title_text="advantage", col=1)
    finish(figure, text)
    figure.update_layout(legend={"y": -0.32})  # below the names of the axes
    figure.update_yaxes(zeroline=True, zerolinecolor="rgba(128,128,128,0.7)")
    return figure
