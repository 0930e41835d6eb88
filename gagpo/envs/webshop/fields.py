"""Fields of foreign JSON objects, checked; what is wrong is named with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text(record: Mapping[str, Any], key: str, where: str) -> str:
    """A text; ValueError names `where`, the key, what came and what was expected."""
    value = record.get(key)
    if not isinstance(value, str):
        came = short(value) if key in record else "missing"
        raise ValueError(f"{where}: {key}: {came}; expected a text")
    return _whole(value, key, where)


def texts(record: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A list of texts."""
    value = record.get(key)
    if not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        came = short(value) if key in record else "missing"
        raise ValueError(f"{where}: {key}: {came}; expected a list of texts")
    return tuple(_whole(item, key, where) for item in value)


def mapping(value: Any, where: str, what: str) -> dict[str, Any]:
    """A JSON object; `what` says what it should hold."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: {short(value)}; expected {what}")
    return value


def short(value: Any) -> str:
    """A value as an error message shows it."""
    written = json.dumps(value, ensure_ascii=True, default=repr)
    return written if len(written) <= 60 else f"{written[:57]}..."


def _whole(value: str, key: str, where: str) -> str:
    """JSON can write half a character, which no file and no index could hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where}: {key}: {short(value)}; expected whole characters") from None
    return value
