"""The whole state graph of a small world with its exact values, as a picture."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, make_world
from gagpo.envs.exact import StateGraph, Values, enumerate_states, optimal, solve, uniform
from widgets.plots import COLOURS, GREY, finish
from widgets.session import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

POLICIES = ("optimal", "random")
EVERY_STATE = 100_000  # a step limit that hides no state of a small world
Links = Mapping[int, Sequence[int]]


def small_world(env: str, seed: int = 0) -> Env:
    """A task of a world that is small enough to enumerate, with no step limit in the way."""
    world = make_world(WorldConfig(env=env, max_steps=EVERY_STATE))
    return world.make(world.tasks("train", 1, np.random.default_rng(seed))[0])


def value_graph(env: Env, *, policy: str = "optimal", gamma: float = 0.95) -> Figure:
    """Every state of a small world, its exact value as number and colour, and what the policy does.

    From left to right by distance from the start, the diamond. Lines are possible steps; arrows
    those of a best policy. Pointing at a state tells its key, its commands and their Q.
    """
    import plotly.graph_objects as go

    if policy not in POLICIES:
        raise ValueError(f"policy: {policy!r}; expected one of {', '.join(POLICIES)}")
    graph = enumerate_states(env)
    if policy == "optimal":
        best, values = optimal(graph, gamma)
        taken = np.concatenate([best(state) for state in graph.states]) > 0
    else:
        values, taken = solve(graph, uniform, gamma), np.zeros(len(graph.reward), bool)
    x, y = layout(graph)
    title = f"{len(graph.states)} states of {env.task_id}: V under the {policy} policy, gamma {gamma:g}"
    figure = go.Figure()
    figure.add_scatter(
        **_segments(_links(graph), x, y),
        mode="lines",
        line={"color": "rgba(128,128,128,0.5)", "width": 1},
        name="possible step",
        hoverinfo="skip",
    )
    if taken.any():
        figure.add_scatter(**_arrows(_links(graph, taken), x, y))
    figure.add_scatter(**_nodes(graph, values, x, y))
    finish(figure, visible(title))
    figure.update_layout(
        height=420,
        margin={"t": 60},
        title={"text": label(title), "font": {"size": 14}, "x": 0},
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(title_text="steps from the start", showgrid=False, dtick=1)
    figure.update_yaxes(visible=False)
    return figure


def layout(graph: StateGraph) -> tuple[np.ndarray, np.ndarray]:
    """(S,) float64 each: x is the distance from the start, y brings states near those that lead there."""
    links = _links(graph)
    distance = {0: 0}
    before: dict[int, list[int]] = {}
    for row in range(len(graph.states)):  # they lie in the order of their distance
        for after in links.get(row, ()):
            distance.setdefault(after, distance[row] + 1)
            if distance[after] == distance[row] + 1:
                before.setdefault(after, []).append(row)
    x, y = np.array([distance[row] for row in range(len(graph.states))], np.float64), np.zeros(len(distance))
    for column in range(1, int(x.max()) + 1):
        rows = sorted(np.flatnonzero(x == column), key=lambda row: float(np.mean(y[before[row]])))
        y[rows] = np.arange(len(rows)) - (len(rows) - 1) / 2
    return x, y


def label(text: str) -> str:
    """Text for plotly, which would read tags, entities and $ as instructions; it knows no &quot;."""
    return html.escape(visible(text), quote=False).replace("$", "&#36;")


def _links(graph: StateGraph, pairs: np.ndarray | None = None) -> dict[int, list[int]]:
    """{state: the other states that one of its pairs can lead to}, of all pairs or of the (P,) bool."""
    found: dict[int, set[int]] = {}
    for pair in range(len(graph.reward)) if pairs is None else np.flatnonzero(pairs):
        row = int(graph.pair_state[pair])
        found.setdefault(row, set()).update(map(int, np.flatnonzero(graph.transition[pair])))
    return {row: sorted(after - {row}) for row, after in found.items()}


def _segments(links: Links, x: np.ndarray, y: np.ndarray) -> dict[str, list]:
    """A line for each link, with a gap after it."""
    ends = [(row, after) for row, others in links.items() for after in others]
    return {"x": [v for a, b in ends for v in (x[a], x[b], None)],
            "y": [v for a, b in ends for v in (y[a], y[b], None)]}  # fmt: skip


def _arrows(links: Links, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    segments = _segments(links, x, y)
    sizes = [0, 12, 0] * (len(segments["x"]) // 3)
    return {
        **segments,
        "mode": "lines+markers",
        "line": {"color": COLOURS[3], "width": 2},
        "marker": {
            "symbol": "arrow",
            "angleref": "previous",
            "standoff": 14,
            "size": sizes,
            "opacity": 1,
            "line": {"width": 0},
        },
        "name": "where a best policy may go",
        "hoverinfo": "skip",
    }


def _nodes(graph: StateGraph, values: Values, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "mode": "markers+text",
        "text": [f"{value:.2f}" for value in values.value],
        "textposition": "top center",
        "hovertext": [_told(graph, values, row) for row in range(len(graph.states))],
        "hoverinfo": "text",
        "marker": {
            "size": 20,
            "symbol": ["diamond"] + ["circle"] * (len(graph.states) - 1),
            "color": values.value,
            "colorscale": "Cividis",
            "showscale": True,
            "colorbar": {"title": {"text": "V"}, "thickness": 12},
            "line": {"color": GREY, "width": 1},
        },
        "name": "state (the diamond is the start)",
    }


def _told(graph: StateGraph, values: Values, row: int) -> str:
    """The state's key, its value, and every command with its Q."""
    state = graph.states[row]
    first = int(np.searchsorted(graph.pair_state, row))
    lines = [f"state {state.key}: V = {values.value[row]:.4g}"]
    lines += [f"{command}: Q = {values.q[first + i]:.4g}" for i, command in enumerate(state.commands)]
    return "<br>".join(map(label, lines))
