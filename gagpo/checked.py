"""Settings that are checked when they are made: types, ranges, choices, and the nearest known name."""

from __future__ import annotations

import types
import typing
from dataclasses import field, fields
from difflib import get_close_matches
from functools import cache
from typing import Any


def at(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A field with its default, its meaning and what it may be."""
    limits = {"help": help, "low": low, "high": high, "choices": choices}
    if isinstance(default, type):
        return field(default_factory=default, metadata=limits)
    return field(default=default, metadata=limits)


class Checked:
    """Base of the sections: `__post_init__` checks type, range and choices of every field."""

    __slots__ = ()

    def __post_init__(self) -> None:
        kinds = hints(type(self))
        for f in fields(self):
            value = _typed(f.name, getattr(self, f.name), kinds[f.name])
            _in_range(f.name, value, **{k: f.metadata[k] for k in ("low", "high", "choices")})
            object.__setattr__(self, f.name, value)


@cache
def hints(cls: type) -> dict[str, Any]:
    """{name: type} of the fields of a class."""
    return typing.get_type_hints(cls)


def unknown(what: str, name: str, known: typing.Iterable[str]) -> str:
    """What to say of a name that is not among those known."""
    near = get_close_matches(str(name), list(known), 1, 0.5)
    return f"unknown {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value` as the type that `hint` names, or a ValueError."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    kind = options[0]
    if typing.get_origin(kind) is tuple:
        items = (
            [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value
        )
        if isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items):
            return tuple(items)
    elif kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) < float("inf"):
            return float(value)
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    hint_text = " (YAML reads 1e-4 as text; write 1.0e-4)" if kind is float and isinstance(value, str) else ""
    wanted = "a list of names" if typing.get_origin(kind) is tuple else kind.__name__
    raise ValueError(f"{name}: {value!r} is {type(value).__name__}; expected {wanted}{hint_text}")


def _in_range(
    name: str, value: Any, low: float | None, high: float | None, choices: tuple[str, ...] | None
) -> None:
    if choices is not None and value not in choices:
        near = get_close_matches(str(value), choices, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name}: {value!r}; expected one of {', '.join(choices)}{hint}")
    if value is None:
        return
    if low is not None and value < low:
        raise ValueError(f"{name}: {value!r}; expected at least {low}")
    if high is not None and value > high:
        raise ValueError(f"{name}: {value!r}; expected at most {high}")
