"""The JSON values of a file, one at a time: lines of JSON Lines, items of a list, or the one value.

Nothing is executed, a key that stands twice in an object is refused, and no more than one value is held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gagpo.envs.webshop.json_array import CHUNK, items
from gagpo.importers.fields import short

BOM = b"\xef\xbb\xbf"
BLANKS = b" \t\r\n"
FIRST = 1 << 20  # bytes in which the first line of a file of lists must end


class NotPlain(Exception):
    """A JSON value that cannot be read in one way only, or is too deep or too long."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise NotPlain(f"key {short(twice)} stands twice in an object")
    return made


class Strict(json.JSONDecoder):
    """Refuses keys that stand twice, nesting that Python cannot follow, and endless whole numbers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(object_pairs_hook=_unique, **options)

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        try:
            return super().raw_decode(s, idx)
        except RecursionError:
            raise NotPlain("nested too deeply; expected some hundred levels at most") from None
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            raise NotPlain(f"a number is too long ({error})") from None


DECODER = Strict()


def parse(content: bytes, where: str, decoder: json.JSONDecoder = DECODER) -> Any:
    """The value of UTF-8 JSON. ValueError names `where` and what is wrong."""
    try:
        return decoder.decode(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: byte {error.start}: expected UTF-8") from None
    except (json.JSONDecodeError, NotPlain) as error:
        raise ValueError(f"{where}: expected JSON: {error}") from None


def json_entries(path: Path, max_bytes: int) -> Iterator[tuple[str, Any]]:
    """(place, value) of each value in the file. ValueError names the place of one that is not JSON or
    is longer than `max_bytes`, and a file without any."""
    try:
        with path.open("rb") as file:
            layout = _layout(file, max_bytes, path)
            file.seek(0)
            yield from layout(file, path, max_bytes)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None


Layout = Callable[[BinaryIO, Path, int], Iterator[tuple[str, Any]]]


def _layout(file: BinaryIO, max_bytes: int, path: Path) -> Layout:
    """How the file is laid out: lines where its first one is JSON by itself, and of a list only if more
    follows; else a list, or one value."""
    line = b""
    while not line.strip(BLANKS):
        line = file.readline(FIRST).removeprefix(BOM)
        if not line:
            raise ValueError(f"{path}: nothing but blanks; expected JSON")
    is_whole = line.endswith(b"\n")
    if line.lstrip(BLANKS).startswith(b"["):
        return _lines if is_whole and _goes_on(file) and _is_json(line) else _array
    return _lines if _is_json(line if is_whole else line + file.readline(max_bytes)) else _one


def _goes_on(file: BinaryIO) -> bool:
    """Whether anything but blanks follows."""
    return any(chunk.strip(BLANKS) for chunk in iter(lambda: file.read(1 << 16), b""))


def _is_json(line: bytes) -> bool:
    try:
        parse(line, "")
    except ValueError:
        return False
    return True


def _lines(file: BinaryIO, path: Path, max_bytes: int) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := file.readline(max_bytes + 1):
        number += 1
        where = f"{path}: line {number}"
        if len(line) > max_bytes:
            raise ValueError(f"{where}: longer than {max_bytes} bytes")
        if line.strip(BLANKS):
            yield where, parse(line.removeprefix(BOM) if number == 1 else line, where)


def _array(file: BinaryIO, path: Path, max_bytes: int) -> Iterator[tuple[str, Any]]:
    number = 0
    found = items(path, min(CHUNK, max_bytes), DECODER, max_bytes)
    try:
        for number, (_, _, value) in enumerate(found, 1):
            yield f"{path}: entry {number}", value
    except NotPlain as error:
        raise ValueError(f"{path}: entry {number + 1}: {error}") from None
    if not number:
        raise ValueError(f"{path}: an empty list; expected entries")


def _one(file: BinaryIO, path: Path, max_bytes: int) -> Iterator[tuple[str, Any]]:
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"{path}: longer than {max_bytes} bytes, and neither lines of JSON nor a list")
    yield str(path), parse(content.removeprefix(BOM), str(path))
