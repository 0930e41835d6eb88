"""inspect_ai's `.eval` logs: a zip of JSON files, one a sample.

Names read, of log format 2: `samples/*.json` with `id` (the task), `epoch` (siblings, from 1), `messages` as
in gagpo.importers.messages, `scores{scorer: {value}}`, `limit` (truncated), `error`, `attachments`. A value
is a number, true or false, or C, P, I or N (1, 0.5, 0, 0). Where a sample has several scores, reward_field
names one: "scores.<scorer>.value". Samples that ended in an error are left out. Files that are neither
stored nor deflated (zstd is optional in inspect_ai) are refused; `inspect log convert` rewrites them.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gagpo.importers.chat import goal_of
from gagpo.importers.collect import collect
from gagpo.importers.entries import parse
from gagpo.importers.fields import finite, first_of, listed, mapping, name_of, naming, short, text, whole
from gagpo.importers.messages import chat_messages
from gagpo.importers.records import Dropped, Episode, Imported, Options
from gagpo.table import Outcome

ERROR = "samples that ended in an error"
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
SAMPLE = re.compile(r"samples/[^/]+\.json")
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, OverflowError)


def read_inspect(path: Path, options: Options) -> Imported:
    """Every sample of the log. ValueError names file, sample and field."""
    return collect(path, "inspect", _found(path, options), options, "tools")


def _found(path: Path, options: Options) -> Iterator[Episode | Dropped]:
    for where, value in _samples(path, options):
        sample = mapping(value, where, "a sample")
        task = name_of(sample.get("id"), f"{where}: id")
        sibling = whole(sample.get("epoch"), f"{where}: epoch", 1) - 1
        if sample.get("error") is not None:
            yield Dropped(ERROR)
            continue
        attachments = {
            f"attachment://{key}": text({"text": value}, "text", f"{where}: attachments: {short(key)}")
            for key, value in mapping(sample.get("attachments") or {}, where, "attachments").items()
        }
        messages = chat_messages(listed(sample, "messages", where), f"{where}: messages", attachments)
        reward = _reward(sample, where, options)
        outcome = Outcome.TERMINATED if sample.get("limit") is None else Outcome.TRUNCATED
        yield Episode(where, task, sibling, tuple(messages), reward, outcome, goal_of(sample, where, options))


def _reward(sample: dict[str, Any], where: str, options: Options) -> float | None:
    """The value of the one score, or of the one that was chosen; None where the sample has none."""
    path = options.reward_field
    if path is None:
        scores = mapping(sample.get("scores") or {}, f"{where}: scores", "scores by their scorers' names")
        if not scores:
            return None
        if len(scores) > 1:
            raise ValueError(
                f"{where}: scores: {short(sorted(scores))}; expected one, or its reward_field, "
                "such as 'scores.<scorer>.value'"
            )
        (scorer,) = scores
        path = f"scores: {short(scorer)}: value"
        score = mapping(scores[scorer], f"{where}: scores: {short(scorer)}", "an object with a value")
        value = score.get("value")
    else:
        value = first_of(sample, path, (), where)[1]
    if isinstance(value, str) and value in LETTERS:
        return LETTERS[value]
    return finite(value, f"{where}: {path}")


def _samples(path: Path, options: Options) -> Iterator[tuple[str, Any]]:
    """(place, value) of each sample; sizes are checked before anything is unpacked."""
    with naming(path, "whole zip file", BROKEN), zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if SAMPLE.fullmatch(entry.filename)]
        if not entries:
            raise ValueError(f"{path}: no samples/*.json in it; expected an inspect_ai log")
        total = sum(entry.file_size for entry in entries)
        if total > options.max_total_bytes:
            raise ValueError(f"{path}: {total} bytes unpacked; expected {options.max_total_bytes} at most")
        for entry in entries:
            where = f"{path}: {short(entry.filename)}"
            if entry.file_size > options.max_entry_bytes:
                limit = options.max_entry_bytes
                raise ValueError(f"{where}: {entry.file_size} bytes unpacked; expected {limit} at most")
            if entry.compress_type not in PACKED:
                raise ValueError(f"{where}: packed by method {entry.compress_type}; expected deflate")
            with archive.open(entry) as file:
                content = file.read()  # no more than file_size: zipfile stops there
            yield where, parse(content, where)
