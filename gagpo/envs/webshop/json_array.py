"""The items of a JSON array too large for memory, with the bytes that each takes in its file."""

from __future__ import annotations

import codecs
import json
import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 22  # bytes that are decoded at a time
MAX_ITEM = 1 << 24  # bytes of one item
BETWEEN = re.compile(r"[ \t\n\r]*([,\]]?)[ \t\n\r]*")
OPENING = re.compile(rb"[ \t\n\r]*\[")
DECODER = json.JSONDecoder()
BLANK = re.compile(rb"[ \t\n\r]*")


def mapped(path: Path) -> mmap.mmap:
    """A file's bytes, mapped into memory. ValueError for one that is empty or cannot be read."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def items(
    path: Path, chunk: int = CHUNK, decoder: json.JSONDecoder = DECODER, max_item: int | None = None
) -> Iterator[tuple[int, int, Any]]:
    """(first byte, byte after the last, value) of each item of the array that the file holds.

    ValueError names the file and the byte where it is not a JSON array, or an item is longer than
    `max_item` bytes (MAX_ITEM by default). What else than a ValueError the decoder raises goes to
    the caller.
    """
    max_item = MAX_ITEM if max_item is None else max_item
    content = mapped(path)
    opening = OPENING.match(content)
    if opening is None:
        raise ValueError(f"{path}: byte 0: expected '[', the start of a list")
    position, size, first = opening.end(), chunk, True
    while True:
        window, is_last = _decoded(path, content, position, size)
        at, before = 0, position
        while (found := _next(window, at, is_last, decoder)) is not None:
            sign, start, end, value = found
            if sign == "]":
                _check_end(path, content, position + len(window[:start].encode()))
                return
            if sign != ("" if first else ","):
                break
            begin = position + len(window[at:start].encode())
            position = begin + len(window[start:end].encode())
            yield begin, position, value
            at, first = end, False
        if is_last or size >= max_item:
            wanted = f"the next item of a JSON list, of {max_item} bytes at most"
            raise ValueError(f"{path}: byte {position}: expected {wanted}")
        size = chunk if position > before else 2 * size


def _next(window: str, at: int, is_last: bool, decoder: json.JSONDecoder) -> tuple[str, int, int, Any] | None:
    """(sign before the item, its start and end, its value) of the item after `at`; None where the
    window does not hold all of it."""
    between = BETWEEN.match(window, at)
    if between[1] == "]":
        return "]", between.end(1), between.end(1), None
    try:
        value, end = decoder.raw_decode(window, between.end())
    except (ValueError, RecursionError):
        return None
    # A number may go on behind the window: 1 as 12, as 1.5 and as 1e3.
    whole = is_last or window[end : end + 1] not in ("", ".", "e", "E")
    return (between[1], between.end(), end, value) if whole else None


def _decoded(path: Path, content: mmap.mmap, position: int, size: int) -> tuple[str, bool]:
    """(the text from `position` on, of `size` bytes or a few less; whether it is the last)."""
    is_last = position + size >= len(content)
    try:
        return codecs.utf_8_decode(content[position : position + size], "strict", is_last)[0], is_last
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {position + error.start}: expected UTF-8") from error


def _check_end(path: Path, content: mmap.mmap, position: int) -> None:
    end = BLANK.match(content, position).end()
    if end != len(content):
        raise ValueError(f"{path}: byte {end}: expected nothing after the list")
