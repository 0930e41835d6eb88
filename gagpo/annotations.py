"""What reviewers wrote: runs/<id>/annotations/<reviewer>.jsonl, one record a line, append-only.

Nobody writes to another's file, so two reviewers lose nothing, and the files merge by git line by line
(`*.jsonl merge=union`): what holds follows from times and ids, not from the order of lines, and a line
that stands twice counts once. gagpo.annotation_record says what a line holds, gagpo.review what holds.

A line is one write under a lock, flushed to the disk before `append` returns. A last line that was torn
by a crash is left out when read, and ended, never glued to, by the next write.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO

from gagpo.annotation_record import TIME_FORMAT, Record, is_time, parse_record
from gagpo.importers.entries import parse
from gagpo.importers.fields import mapping, short
from gagpo.labels import LabelSet, read_labels
from gagpo.plain_files import open_plain
from gagpo.store import Run, check_name
from gagpo.targets import Target

MAX_LINE = 1 << 20  # bytes
MAX_FILE = 1 << 26
MAX_PROBLEMS = 20  # of a file that are told one by one


@dataclass(frozen=True, slots=True)
class Annotations:
    """Records by (time, reviewer, id), and what could not be read, in words."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]


class Journal:
    """One reviewer's annotations of a run. Every method that writes returns the record it wrote."""

    def __init__(self, run: Run, reviewer: str, labels: LabelSet | None = None) -> None:
        check_name("reviewer", reviewer)
        if not run.path.is_dir():
            raise ValueError(f"{run.path}: missing; expected a run folder")
        for other in reviewers(run):
            if other != reviewer and other.casefold() == reviewer.casefold():
                raise ValueError(f"reviewer: {reviewer!r}; {other!r} is known, expected the same capitals")
        self.run, self.reviewer = run, reviewer
        self.labels = labels or read_labels(run)
        self.path = _folder(run) / f"{reviewer}.jsonl"

    def read(self) -> Annotations:
        """The reviewer's own records."""
        return _joined([_read(self.path, self.reviewer)] if self.path.exists() else [])

    def answer(self, target: Target, question: str, value: Any) -> Record:
        """Answer a question of the label set; a later answer takes the place of an earlier one."""
        value = self.labels.question(question).check(value, target)
        listed_value = list(value) if isinstance(value, tuple) else value
        return self._append("answer", target, question=question, value=listed_value)

    def tag(self, target: Target, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Record:
        """Give tags to the target, or take off those that this reviewer gave."""
        given = {"add": add, "remove": remove}
        lists = {name: [tags] if isinstance(tags, str) else list(tags) for name, tags in given.items()}
        return self._append("tags", target, **lists)

    def comment(self, target: Target, text: str) -> Record:
        """Say something about the target."""
        return self._append("comment", target, text=text)

    def edit(self, comment: Record, text: str) -> Record:
        """New words for the reviewer's own comment."""
        return self._append("edit", self._own(comment, "comment").target, of=comment.id, text=text)

    def retract(self, record: Record) -> Record:
        """Make the reviewer's own record count no more; for good, but it can be written anew."""
        return self._append("retract", self._own(record).target, of=record.id)

    def _own(self, record: Record, kind: str | None = None) -> Record:
        if record.reviewer != self.reviewer:
            raise ValueError(f"reviewer: {record.reviewer!r} wrote that; expected {self.reviewer!r}'s own")
        if record.kind == "retract" or record.kind != (kind or record.kind):
            raise ValueError(f"kind: {record.kind!r}; expected {kind or 'anything but a retraction'}")
        return record

    def _append(self, kind: str, target: Target, **own: Any) -> Record:
        raw = {"id": secrets.token_hex(8), "time": "", "reviewer": self.reviewer, "kind": kind}
        raw |= {"target": str(target), **own}
        parse_record(raw | {"time": _now()}, "annotation", self.reviewer)  # or the file stays untouched
        self.path.parent.mkdir(exist_ok=True)
        with _locked(self.path) as file:
            raw["time"] = max(_now(), _after_last(file))
            _write_line(file, raw)
            _flush_name(self.path)
        return parse_record(raw, "annotation", self.reviewer)


def reviewers(run: Run) -> list[str]:
    """Who has a file of annotations."""
    return sorted(path.stem for path in _folder(run).glob("*.jsonl") if _is_name(path.stem))


def read_annotations(run: Run) -> Annotations:
    """Every reviewer's records."""
    odd = [path for path in sorted(_folder(run).glob("*.jsonl")) if not _is_name(path.stem)]
    problems = [f"{short(path.name)}: not read; its name is not a reviewer's" for path in odd]
    parts = []
    for name in reviewers(run):
        try:
            parts.append(_read(_folder(run) / f"{name}.jsonl", name))
        except ValueError as error:
            problems.append(str(error))  # one bad file does not hide the others
    return _joined([*parts, ([], problems)])


def _joined(parts: Sequence[tuple[list[Record], list[str]]]) -> Annotations:
    records = sorted((r for part, _ in parts for r in part), key=lambda r: (r.time, r.reviewer, r.id))
    return Annotations(tuple(records), tuple(problem for _, told in parts for problem in told))


def _folder(run: Run) -> Path:
    """The folder of annotations, which must lie in the run's."""
    folder = run.path / "annotations"
    if folder.resolve().parent != run.path.resolve():
        raise ValueError(f"{folder}: leads to {folder.resolve()}, outside of the run")
    return folder


def _is_name(name: str) -> bool:
    try:
        check_name("reviewer", name)
    except ValueError:
        return False
    return True


def _read(path: Path, reviewer: str) -> tuple[list[Record], list[str]]:
    """The records of a file, each id once, and what is wrong with its other lines."""
    found: list[tuple[str, bytes, Record]] = []
    problems: list[str] = []
    num_problems = 0
    for number, line, is_ended in _lines(path):
        where = f"{path}: line {number}"
        try:
            if len(line) > MAX_LINE:
                raise ValueError(f"{where}: longer than {MAX_LINE} bytes")
            raw = mapping(parse(line, where), where, "a record, a JSON object")
            record = parse_record(raw, where, reviewer)
            found.append((record.time, line.strip(), record))
        except ValueError as error:
            num_problems += is_ended  # a line without an end is being written, or torn
            if is_ended and num_problems <= MAX_PROBLEMS:
                problems.append(str(error))
    if num_problems > MAX_PROBLEMS:
        problems.append(f"{path}: {num_problems - MAX_PROBLEMS} more lines could not be read")
    kept: dict[str, tuple[bytes, Record]] = {}
    for _, line, record in sorted(found, key=lambda item: item[:2]):
        first = kept.setdefault(record.id, (line, record))[0]
        if first != line and len(problems) <= 2 * MAX_PROBLEMS:
            problems.append(f"{path}: id {record.id} stands in lines that differ; the earlier one counts")
    return [record for _, record in kept.values()], problems


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """(number, content, whether it was ended) of every line that is not blank, cut after MAX_LINE + 1."""
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE:
            raise ValueError(f"{path}: longer than {MAX_FILE} bytes")
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            tail = line
            while not tail.endswith(b"\n") and (more := file.readline(MAX_LINE)):
                tail = more
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield number, line, tail.endswith(b"\n")


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, made if need be, held by this process alone until the end."""
    while True:
        with open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_there(file, path):
                continue  # git or an editor put another file in its place while we waited
            yield file
            return


def _is_there(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _after_last(file: BinaryIO) -> str:
    """A microsecond after the last line's time: a clock that was set back does not undo an answer."""
    size = os.fstat(file.fileno()).st_size
    tail = os.pread(file.fileno(), MAX_LINE, max(0, size - MAX_LINE))
    for line in reversed(tail.rstrip().split(b"\n")[-2:]):  # the very last one may be torn
        try:
            time = mapping(parse(line, ""), "", "").get("time", "")
            after = datetime.strptime(time, TIME_FORMAT) + timedelta(microseconds=1)
        except (ValueError, TypeError, OverflowError):
            continue
        if is_time(after.strftime(TIME_FORMAT)):
            return after.strftime(TIME_FORMAT)
    return ""


def _write_line(file: BinaryIO, raw: dict[str, Any]) -> None:
    """One write of the whole line, on the disk when this returns; what a full disk cuts is taken back."""
    line = json.dumps(raw).encode() + b"\n"
    if len(line) > MAX_LINE:
        raise ValueError(f"annotation: {len(line)} bytes; expected {MAX_LINE} at most")
    size = os.fstat(file.fileno()).st_size
    if size + len(line) >= MAX_FILE:
        raise ValueError(f"{size} bytes of annotations; expected less than {MAX_FILE}")
    if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
        line = b"\n" + line  # end the line that a crash has torn
    try:
        written = os.write(file.fileno(), line)
        if written < len(line):
            raise OSError(f"{written} of {len(line)} bytes were written; is the disk full?")
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), size)
        raise


def _flush_name(path: Path) -> None:
    """The folder's entry of a file that may be new."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _now() -> str:
    return datetime.now(timezone.utc).strftime(TIME_FORMAT)
