"""The figure of credit_fidelity.py: the gradient's cosine against three settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from line_figure import GREY, Panel, draw

# Okabe and Ito's colours that hold on white and on black; dashes and the order at the right end say it too.
LOOKS = {
    "GAE, exact V": (GREY, "1 3"),
    "gated_bepo": ("#56B4E9", "6 3"),
    "gagpo": ("#D55E00", ""),
    "reinforce": ("#009E73", "2 2"),
    "gigpo": ("#0072B2", "8 2 2 2"),
    "grpo": ("#E69F00", "4 4"),
}
RECORDED = {"GAE, exact V": "gae exact"}
TITLES = {
    "num_siblings": "siblings K",
    "unique_share": "share of states made unique",
    "gamma": "discount gamma",
}
Y_TICKS = [(y / 4, f"{y / 4:g}") for y in range(5)]


def figure(varied: Mapping[str, Sequence[dict]]) -> str:
    """The SVG text; `varied` holds for each setting the records of the cells that vary it, in order."""
    panels = [_panel(setting, rows) for setting, rows in varied.items()]
    return draw("Cosine of a batch's gradient with the true one (a policy of 50 %)", panels, LOOKS)


def _panel(setting: str, rows: Sequence[dict]) -> Panel:
    """Settings stand at equal distances."""
    lines = {
        name: [(place, *row["rows"][RECORDED.get(name, name)]["cosine"]) for place, row in enumerate(rows)]
        for name in LOOKS
    }
    ticks = [(place, f"{row['cell'][setting]:g}") for place, row in enumerate(rows)]
    return Panel(TITLES[setting], lines, ticks, Y_TICKS)
