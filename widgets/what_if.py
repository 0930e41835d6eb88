"""What lambda and gamma do to the credit of recorded steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.fidelity import correlation
from widgets.graph import label
from widgets.plots import COLOURS, DASHES, finish
from widgets.recorded import Recorded
from widgets.session import visible
from widgets.tables import Table, how_it_ended, siblings_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LAMBDAS = (0.0, 0.5, 0.8, 0.95, 1.0)
GAMMAS = (0.8, 0.9, 0.95, 0.99, 1.0)


def lambda_curves(
    recorded: Recorded, config: CreditConfig, task: str | None = None, lambdas: Sequence[float] = LAMBDAS
) -> Figure:
    """GAGPO's advantage over the steps of two siblings, a curve for each lambda.

    Rings are R_t - V(s_t), which lambda 1 amounts to, crosses td errors, which lambda 0 does, as long as
    no episode term, bootstrapped end or penalty outside of r_t is asked for.
    """
    table, config = recorded.table(config), replace(config, estimator="gagpo")
    credits = {lam: assign_credit(table, replace(config, lam=lam)) for lam in lambdas}
    curves = {_lambda_name(lam): credit.advantage for lam, credit in credits.items()}
    some = credits[lambdas[0]]
    marks = {"R − V(s)": some.return_to_go - some.value, "td error": some.td_error}
    return _curves(recorded, table.offsets, curves, marks, task, "Advantage of every step as lambda goes up")


def gamma_curves(
    recorded: Recorded, config: CreditConfig, task: str | None = None, gammas: Sequence[float] = GAMMAS
) -> Figure:
    """GAGPO's advantage over the steps of two siblings, a curve for each gamma."""
    config, curves = replace(config, estimator="gagpo"), {}
    for gamma in gammas:
        own = replace(config, gamma=gamma)
        curves[f"γ {gamma:g}"] = assign_credit(recorded.table(own), own).advantage
    offsets = recorded.table(config).offsets
    return _curves(recorded, offsets, curves, {}, task, "Advantage of every step as gamma goes up")


def agreement_grid(
    recorded: Recorded,
    config: CreditConfig,
    lambdas: Sequence[float] = LAMBDAS,
    gammas: Sequence[float] = GAMMAS,
) -> Table:
    """How GAGPO's normalised advantages of all steps correlate with the true ones, for each pair of lambda
    and gamma. The truth is that of the same gamma."""
    if recorded.truth is None:
        return Table(f"Nobody knows the true advantages of {visible(recorded.told)}.", (), ())
    rows, shades = [], []
    for gamma in gammas:
        own = replace(config, estimator="gagpo", gamma=gamma)
        table, true = recorded.table(own), recorded.truth(gamma).advantage
        found = [correlation(assign_credit(table, replace(own, lam=x)).normalized, true) for x in lambdas]
        rows.append((f"γ {gamma:g}", *(f"{x:.3f}" for x in found)))
        shades.append((None, *found))
    caption = f"Correlation with the true A: {visible(recorded.told)}"
    return Table(caption, ("", *(f"λ {lam:g}" for lam in lambdas)), tuple(rows), tuple(shades))


def _lambda_name(lam: float) -> str:
    return {0.0: "λ 0 = td error", 1.0: "λ 1 = R − V(s)"}.get(lam, f"λ {lam:g}")


def _curves(
    recorded: Recorded,
    offsets: Sequence[int],
    curves: dict[str, Sequence[float]],
    marks: dict[str, Sequence[float]],
    task: str | None,
    text: str,
) -> Figure:
    """Columns over all steps, drawn for the first two siblings, a success and a failure if there are both."""
    from plotly.subplots import make_subplots

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
    figure.update_yaxes(zeroline=True, zerolinecolor="rgba(128,128,128,0.7)")
    return figure
