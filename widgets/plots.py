"""Pictures of a run: plain plotly figures, legible on light and dark, without colour too.

Figures are shown as plotly's own data (the mimetype renderer): small in a saved notebook, live in
JupyterLab, and without the mode bar's button that would upload the figure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gagpo.stats import measured
from gagpo.store import Run

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Okabe and Ito's colours that hold on white and on black; dashes say the same without colour.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
GREY = "#808080"


def show(figure: Figure) -> None:
    """Display a figure in a notebook."""
    from IPython.display import display

    display(mimebundle(figure), raw=True)


def mimebundle(figure: Figure) -> dict[str, Any]:
    """The figure as what a notebook stores, with a line of text for viewers that draw nothing."""
    content = {**figure.to_plotly_json(), "config": {"displaylogo": False, "showSendToCloud": False}}

    from plotly.utils import PlotlyJSONEncoder

    plain = json.loads(json.dumps(content, cls=PlotlyJSONEncoder))
    text = (figure.layout.meta or {}).get("text", "a figure")
    return {"application/vnd.plotly.v1+json": plain, "text/plain": text}


def learning_curves(runs: Run | Sequence[Run]) -> Figure:
    """Success on training and unseen tasks, and steps an episode, by iteration.

    Several runs have a colour each: strong for unseen tasks, faint for training.
    """
    figure = _panels("Success rate", "Steps in an episode")
    several = len(_listed(runs)) > 1
    for number, run in enumerate(_listed(runs)):
        train, unseen = run.read_metrics("train"), run.read_metrics("eval")
        label, looks = (f"{run.run_id} ", (number, number)) if several else ("", (0, 1))
        for column, metric in ((1, "success_rate"), (2, "episode_length")):
            shown, faint = column == 1, 0.35 if several else 0.7
            _line(figure, train, metric, f"{label}training", looks[0], column, legend=shown, opacity=faint)
            _line(figure, unseen, metric, f"{label}unseen", looks[1], column, legend=shown, marks=True)
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%", col=1)
    figure.update_yaxes(rangemode="tozero", col=2)
    return finish(figure, "Learning curves of " + ", ".join(run.run_id for run in _listed(runs)))


def advantage_spread(run: Run) -> Figure:
    """Interquartile range and share above 1 of the advantages by iteration, and the last histogram."""
    import plotly.graph_objects as go

    figure = _panels("Spread by iteration", "Advantages of the last iteration")
    records = run.read_metrics("train")
    _line(figure, records, "advantage_iqr", "interquartile range", 0, 1)
    _line(figure, records, "advantage_above_one", "share with |A| > 1", 1, 1)
    _line(figure, records, "singleton_share", "share of singleton steps", 2, 1)
    _line(figure, records, "zero_sigma_share", "share of groups without signal", 3, 1)
    recorded = run.iterations_with_steps()
    if recorded:
        from gagpo.steps_file import read_credit, read_steps

        advantages = read_credit(read_steps(run.steps_path(recorded[-1]))).normalized
        bars = go.Histogram(
            x=advantages, nbinsx=60, marker_color=COLOURS[0], name="normalized advantage", showlegend=False
        )
        figure.add_trace(bars, 1, 2)
        figure.update_xaxes(title_text="normalized advantage", col=2)
        figure.update_yaxes(title_text="steps", col=2)
    return finish(figure, f"Advantages of {run.run_id}")


def training_health(run: Run) -> Figure:
    """Ratio, clip fraction, KL, entropy and gradient norm by iteration."""
    figure = _panels("Ratio, gradient norm, entropy", "Clip fraction, KL")
    records = run.read_metrics("train")
    for number, metric in enumerate(("ratio_max", "gradient_norm", "entropy")):
        _line(figure, records, metric, metric, number, 1)
    for number, metric in enumerate(("clip_fraction", "kl_k3"), 3):
        _line(figure, records, metric, metric, number, 2)
    return finish(figure, f"Training of {run.run_id}")


def phase_times(run: Run) -> Figure:
    """Seconds that each phase of an iteration took, stacked."""
    import plotly.graph_objects as go

    figure = go.Figure()
    records = run.read_metrics("train")
    phases = ["collect_s", "score_s", "credit_s", "record_s", "update_s"]
    if any("critic_s" in record for record in records):
        phases.append("critic_s")
    for number, phase in enumerate(phases):
        seconds = [record.get(phase) for record in records]
        pattern = ("", "/", "x", "-", ".", "+")[number]
        figure.add_bar(
            x=[record["iteration"] for record in records],
            y=seconds,
            name=phase.removesuffix("_s"),
            marker={"color": COLOURS[number], "pattern": {"shape": pattern}},
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="iteration")
    figure.update_yaxes(title_text="seconds")
    return finish(figure, f"Time of {run.run_id}")


def _listed(runs: Run | Sequence[Run]) -> list[Run]:
    return [runs] if isinstance(runs, Run) else list(runs)


def _panels(*titles: str) -> Figure:
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(titles), subplot_titles=titles)
    figure.update_xaxes(title_text="iteration")
    return figure


def _line(
    figure: Figure,
    records: Sequence[dict[str, Any]],
    metric: str,
    label: str,
    number: int,
    column: int,
    *,
    legend: bool = True,
    marks: bool = False,
    opacity: float = 1.0,
) -> None:
    """One curve; missing values leave a gap."""
    import plotly.graph_objects as go

    look = number % len(COLOURS)
    figure.add_trace(
        go.Scatter(
            x=[record["iteration"] for record in records],
            y=[measured(record, metric) for record in records],
            name=label,
            legendgroup=label,
            showlegend=legend,
            mode="lines+markers" if marks else "lines",
            opacity=opacity,
            line={"color": COLOURS[look], "dash": DASHES[look]},
        ),
        row=1,
        col=column,
    )


def finish(figure: Figure, text: str) -> Figure:
    """Transparent ground and mid-grey ink, which hold on light and on dark pages."""
    figure.update_layout(
        meta={"text": text},
        height=340,
        margin={"l": 50, "r": 20, "t": 40, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY},
        legend={"orientation": "h", "y": -0.2},
    )
    figure.update_xaxes(gridcolor="rgba(128,128,128,0.25)", zeroline=False)
    figure.update_yaxes(gridcolor="rgba(128,128,128,0.25)", zeroline=False)
    return figure
