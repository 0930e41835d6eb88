"""The figure of credit_fidelity.py as SVG: the gradient's cosine against three settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, TOP, GAP = 270, 250, 46, 34, 34
GREY = "#808080"
# Okabe and Ito's colours that hold on white and on black; dashes and the order at the right end say it too.
LINES = {
    "gae exact": (GREY, "1 3"),
    "gated_bepo": ("#56B4E9", "6 3"),
    "gagpo": ("#D55E00", ""),
    "reinforce": ("#009E73", "2 2"),
    "gigpo": ("#0072B2", "8 2 2 2"),
    "grpo": ("#E69F00", "4 4"),
}
TITLES = {
    "num_siblings": "siblings K",
    "unique_share": "share of states made unique",
    "gamma": "discount gamma",
}


def draw(panels: Mapping[str, Sequence[dict]]) -> str:
    """The SVG text; `panels` holds for each setting the records of the cells that vary it, in order."""
    total = LEFT + len(panels) * (WIDTH + GAP)
    parts = [_text(LEFT, 16, "Cosine of a batch's gradient with the true one (a policy of 50 %)", size=13)]
    for number, (varied, rows) in enumerate(panels.items()):
        parts += _panel(LEFT + number * (WIDTH + GAP), varied, rows)
    for number, (name, (colour, dash)) in enumerate(LINES.items()):
        x, y = LEFT + 140 * number, TOP + HEIGHT + 56
        parts.append(_line([(x, y), (x + 26, y)], colour, dash))
        parts.append(_text(x + 32, y + 4, {"gae exact": "GAE, exact V"}.get(name, name)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {TOP + HEIGHT + 70}" width="{total}"'
    )
    return "\n".join([f'{head} font-family="sans-serif">', *parts, "</svg>\n"])


def _panel(left: float, varied: str, rows: Sequence[dict]) -> list[str]:
    """Axes, and a line with intervals for each estimator; settings stand at equal distances."""

    def at(place: int, value: float) -> tuple[float, float]:
        return left + WIDTH * place / max(len(rows) - 1, 1), TOP + HEIGHT * (1 - value)

    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        (x, y), (end, _) = at(0, tick), at(len(rows) - 1, tick)
        parts.append(_line([(x, y), (end, y)], GREY, "", 0.3))
        parts.append(_text(x - 6, y + 4, f"{tick:g}", anchor="end"))
    for place, row in enumerate(rows):
        x, y = at(place, 0)
        parts.append(_text(x, y + 16, f"{row['cell'][varied]:g}", anchor="middle"))
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 34, TITLES[varied], anchor="middle"))
    for name, (colour, dash) in LINES.items():
        found = [row["rows"][name]["cosine"] for row in rows]
        parts.append(_line([at(i, mean) for i, (mean, _, _) in enumerate(found)], colour, dash))
        parts += [_line([at(i, low), at(i, high)], colour) for i, (_, low, high) in enumerate(found)]
    return parts


def _line(points: Sequence[tuple[float, float]], colour: str, dash: str = "", width: float = 2) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    looks = f'stroke="{colour}" stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return f'<polyline points="{places}" fill="none" {looks}/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="{GREY}" font-size="{size}" text-anchor="{anchor}">{text}</text>'
    )
