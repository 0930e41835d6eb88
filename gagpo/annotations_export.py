"""Annotations joined with the trajectories they are about, as a table, CSV or Parquet.

One row for each answer, comment and given tag that holds:

    run, iteration, task, sibling     the trajectory; `link` is the whole target as text
    step, span_text, span_start, span_end, quote    null where it is not about a step or a span; `quote`
                                      is the characters of the span
    reviewer, time, edited, id        `edited` is the time of a comment's last edit
    kind, question                    answer, comment or tag; the question of an answer
    value, number                     the answer, words or tag as text: true or false of a flag, a JSON list
                                      of several options; `number` of a scale, a step and a flag
    goal, outcome, success, return, length    of the trajectory; null where the run does not have it

Parquet holds texts as they are. In CSV a text that a spreadsheet could take for a formula, one that begins
with = + - @, their wide forms, a tab or a line break, gets a ' before it, and so does one that begins
with '; taking one ' off gives the text back. Numbers are plain, and nulls are empty.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gagpo.annotation_record import TIME_FORMAT, Record
from gagpo.labels import Value
from gagpo.review import State
from gagpo.targets import RecordedTargets, TrajectoryFacts

_TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("run", pa.string()), ("iteration", pa.int64()), ("task", pa.string()), ("sibling", pa.int64()),
        ("step", pa.int64()), ("span_text", pa.string()), ("span_start", pa.int64()),
        ("span_end", pa.int64()), ("quote", pa.string()), ("link", pa.string()),
        ("reviewer", pa.string()), ("time", _TIME), ("edited", _TIME), ("id", pa.string()),
        ("kind", pa.string()), ("question", pa.string()), ("value", pa.string()), ("number", pa.int64()),
        ("goal", pa.string()), ("outcome", pa.string()), ("success", pa.bool_()),
        ("return", pa.float64()), ("length", pa.int64()),
    ]
)  # fmt: skip
GUARDED = frozenset("=+-@＝＋－＠\t\r\n'")


def annotation_table(state: State, recorded: RecordedTargets) -> tuple[pa.Table, list[str]]:
    """(the rows in the order of iteration, task, sibling, step and time; what is not in the run)."""
    rows: list[dict[str, Any]] = []
    problems: dict[str, None] = {}
    for record, kind, value, edited in _held(state):
        target, span = record.target, record.target.span
        facts, quote, problem = _looked_up(recorded, record)
        if problem:
            problems[problem] = None
        own = {"run": recorded.run.run_id, "iteration": target.iteration, "task": target.task_id}
        own |= {"sibling": target.sibling, "step": target.step, "quote": quote, "link": str(target)}
        if span is not None:
            own |= {"span_text": span.text, "span_start": span.start, "span_end": span.end}
        own |= {"reviewer": record.reviewer, "time": _time(record.time), "edited": _time(edited)}
        own |= {"id": record.id, "kind": kind, "question": record.question or None}
        own |= {"value": _text(value), "number": int(value) if isinstance(value, int) else None}
        if facts is not None:
            own |= {"goal": facts.goal, "outcome": facts.outcome, "success": facts.success}
            own |= {"return": facts.total_reward, "length": facts.length}
        rows.append(own)
    rows.sort(key=_place)
    columns = {f.name: pa.array([row.get(f.name) for row in rows], f.type) for f in SCHEMA}
    return pa.table(columns, schema=SCHEMA), list(problems)


def write_annotations(table: pa.Table, path: Path) -> None:
    """Write to a .csv or .parquet file, aside and then renamed."""
    writers: dict[str, Callable[[pa.Table, Path], None]] = {".csv": _write_csv, ".parquet": pq.write_table}
    if path.suffix not in writers:
        raise ValueError(f"out: {str(path)!r}; expected a name that ends in .csv or .parquet")
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        writers[path.suffix](table, aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def guarded(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in GUARDED and text else text


def _held(state: State) -> Iterator[tuple[Record, str, Value, str]]:
    """(record, kind, value, time of the last edit) of every answer, tag and comment that holds."""
    for given in state.answers.values():
        yield from ((record, "answer", record.value, "") for record in given.values())
    for tags in state.tags.values():
        for tag, given in tags.items():
            yield from ((record, "tag", tag, "") for record in given.values())
    yield from ((comment.record, "comment", comment.text, comment.edited) for comment in state.comments)


def _looked_up(
    recorded: RecordedTargets, record: Record
) -> tuple[TrajectoryFacts | None, str | None, str | None]:
    """(the trajectory, the quoted characters, what is missing) as far as the run has them."""
    target, facts = record.target, None
    try:
        facts = recorded.facts(target)
        if target.level != "trajectory":
            recorded.check(target)
        return facts, recorded.quoted(target) if target.span else None, None
    except ValueError as error:
        return facts, None, f"{record.reviewer}: {target}: {error}"


def _place(row: dict[str, Any]) -> tuple:
    step = -1 if row["step"] is None else row["step"]
    last = (row["time"], row["reviewer"], row["id"], row["value"])
    return row["iteration"], row["task"], row["sibling"], step, *last


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=timezone.utc) if text else None


def _write_csv(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)  # its line ends, \r\n, are what makes it quote a lone \r and \n
        writer.writerow(table.column_names)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime(TIME_FORMAT)
    return guarded(value) if isinstance(value, str) else json.dumps(value)
