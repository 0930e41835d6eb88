"""Lines with intervals or bands as an SVG file: small, offline, legible on light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, TOP, GAP, LEGEND = 270, 250, 46, 34, 34, 150
GREY = "#808080"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over one axis: {name: (x, mean, low, high) for each point}.

    `ticks` are (x, label). Bands fill between low and high; without, bars stand at the points. The
    y axis runs from 0 to `top`.
    """

    label: str
    lines: Mapping[str, Sequence[tuple[float, float, float, float]]]
    ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    bands: bool = False

    @property
    def top(self) -> float:
        return self.y_ticks[-1][0]


def draw(title: str, panels: Sequence[Panel], looks: Mapping[str, tuple[str, str]], columns: int = 6) -> str:
    """The SVG text. `looks` holds a colour and a dash pattern for each line, in the legend's order."""
    rows = -(-len(looks) // columns)
    wide = LEFT + max(len(panels) * (WIDTH + GAP), min(columns, len(looks)) * LEGEND)
    high = TOP + HEIGHT + 52 + 18 * rows
    parts = [_text(LEFT, 16, title, size=13)]
    for number, panel in enumerate(panels):
        parts += _panel(LEFT + number * (WIDTH + GAP), panel, looks)
    for number, (name, (colour, dash)) in enumerate(looks.items()):
        x, y = LEFT + LEGEND * (number % columns), TOP + HEIGHT + 56 + 18 * (number // columns)
        parts += [_line([(x, y), (x + 26, y)], colour, dash), _text(x + 32, y + 4, name)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
    return "\n".join([f'{head} font-family="sans-serif">', *parts, "</svg>\n"])


def _panel(left: float, panel: Panel, looks: Mapping[str, tuple[str, str]]) -> list[str]:
    first, last = panel.ticks[0][0], panel.ticks[-1][0]

    def at(x: float, y: float) -> Point:
        return left + WIDTH * (x - first) / (last - first or 1), TOP + HEIGHT * (1 - y / panel.top)

    parts = []
    for value, label in panel.y_ticks:
        (x, y), end = at(first, value), at(last, value)
        parts += [_line([(x, y), end], GREY, "", 0.3), _text(x - 6, y + 4, label, anchor="end")]
    for value, label in panel.ticks:
        parts.append(_text(at(value, 0)[0], TOP + HEIGHT + 16, label, anchor="middle"))
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 34, panel.label, anchor="middle"))
    for name, (colour, dash) in looks.items():
        points = panel.lines.get(name, ())
        if panel.bands and points:
            edge = [at(x, low) for x, _, low, _ in points] + [at(x, top) for x, _, _, top in points[::-1]]
            places = _places(edge)
            parts.append(f'<polygon points="{places}" fill="{colour}" fill-opacity="0.13"/>')
        elif points:
            parts += [_line([at(x, low), at(x, top)], colour) for x, _, low, top in points]
        if points:
            parts.append(_line([at(x, mean) for x, mean, _, _ in points], colour, dash))
    return parts


def _places(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _line(points: Sequence[Point], colour: str, dash: str = "", width: float = 2) -> str:
    looks = f'stroke="{colour}" stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return f'<polyline points="{_places(points)}" fill="none" {looks}/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="{GREY}" font-size="{size}" text-anchor="{anchor}">{text}</text>'
    )
