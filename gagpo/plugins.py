"""What is chosen by name: the project's own, else what an installed package adds by an entry point."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def load_plugin(setting: str, name: str, group: str, own: Iterable[str]) -> Any:
    """What the entry point `name` of `group` names, written "module:object" there.

    `own` are the names that the project itself knows, for the message. Raises ValueError, with
    `setting` in front, where no package or more than one has that name, or where it cannot be loaded.
    """
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        known = sorted({*own, *(point.name for point in entry_points(group=group))})
        near = get_close_matches(name, known, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{setting}: {name!r}; expected one of {', '.join(known)}{hint}")
    if len(points) > 1:
        raise ValueError(
            f"{setting}: {name!r} comes from several packages: {', '.join(map(_package, points))}"
        )
    try:
        return points[0].load()
    except Exception as error:
        raise ValueError(
            f"{setting}: {name!r} of package {_package(points[0])} cannot be loaded: {error}"
        ) from error


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "(unnamed)"
