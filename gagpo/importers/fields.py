"""Fields of recorded JSON, checked; an error names the place, the field, what came and what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gagpo.envs.webshop.fields import mapping, short, text

__all__ = [
    "at",
    "finite",
    "first_of",
    "listed",
    "mapping",
    "name_of",
    "naming",
    "objects",
    "short",
    "text",
    "whole",
]
LARGEST = 1e100  # of a reward: its square and the sum of many squares stay finite
MISSING = object()


def finite(value: Any, where: str, largest: float = LARGEST) -> float:
    """A finite number of at most that size; true and false count as 1 and 0."""
    if not isinstance(value, (int, float)) or not abs(value) <= largest:
        raise ValueError(f"{where}: {short(value)}; expected a finite number of at most {largest:g} in size")
    return float(value)


def whole(value: Any, where: str, low: int = 0, high: int = 2**31 - 1) -> int:
    """A whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{where}: {short(value)}; expected a whole number from {low} to {high}")
    return value


def name_of(value: Any, where: str) -> str:
    """A name: a text that is not empty, or a whole number as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(whole(value, where, -(2**63), 2**63 - 1))
    if value == "" or not isinstance(value, str):
        raise ValueError(f"{where}: {short(value)}; expected a name or a whole number")
    return text({"name": value}, "name", where)


def listed(record: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """A list."""
    value = record.get(key, MISSING)
    if not isinstance(value, list):
        came = "missing" if value is MISSING else short(value)
        raise ValueError(f"{where}: {key}: {came}; expected a list")
    return value


def objects(record: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A list of JSON objects; none where the key is absent or null."""
    if record.get(key) is None:
        return []
    values = listed(record, key, where)
    return [mapping(value, f"{where}: {key}[{i}]", "an object") for i, value in enumerate(values)]


def at(record: Any, path: str) -> Any:
    """The value under a dotted path such as "info.reward", or MISSING; null counts as missing."""
    for key in path.split("."):
        if not isinstance(record, dict) or key not in record:
            return MISSING
        record = record[key]
    return MISSING if record is None else record


def first_of(record: Any, chosen: str | None, defaults: tuple[str, ...], where: str) -> tuple[str, Any]:
    """(path, value) of the first default that the record has; of `chosen`, which must be there, where
    one is given. The value is MISSING where none is there."""
    if chosen is not None:
        value = at(record, chosen)
        if value is MISSING:
            raise ValueError(f"{where}: {chosen}: missing; it was chosen to be read")
        return chosen, value
    for path in defaults:
        if (value := at(record, path)) is not MISSING:
            return path, value
    return "", MISSING


@contextmanager
def naming(path: Path, expected: str, broken: tuple[type[Exception], ...]) -> Iterator[None]:
    """What a library raises for a damaged file, as a ValueError that begins with the file's name; bytes
    of the file that it quotes cannot steer a terminal."""
    try:
        yield
    except (ValueError, *broken) as error:
        own = isinstance(error, ValueError) and str(error).startswith(f"{path}: ")
        told = str(error).removeprefix(f"{path}: ")
        told = "".join(c if c.isprintable() else " " for c in told).strip()
        raise ValueError(f"{path}: {told}" if own else f"{path}: not a {expected} ({told})") from None
