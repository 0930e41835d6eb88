"""One annotation: what a line of a reviewer's file holds.

    {"id": "9f…", "time": "2026-12-03T14:10:00.000000Z", "reviewer": "ann", "kind": "answer",
     "target": "iteration=3&task=pick%20up&sibling=2", "question": "outcome", "value": "failed"}

Besides these five fields a record of each kind has

    answer   question, value      to a question of the label set; a later one takes its place
    tags     add, remove          lists of tags, given to the target or taken from it
    comment  text
    edit     of, text             new words for the reviewer's own comment with the id `of`
    retract  of                   the reviewer's own record with that id counts no more

`target` is text as in gagpo.targets. Fields and kinds that are not known here stay in the file and are
left alone. Nobody writes to another's file, so two reviewers lose nothing, and the files merge by git
line by line (`*.jsonl merge=union`): what holds follows from times and ids, not from the order of lines,
and a line that stands twice counts once. gagpo.review folds records to what holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gagpo.checked import unknown
from gagpo.importers.fields import listed, short, text
from gagpo.labels import MAX_ITEMS, MAX_TEXT, Value, checked_tag, worded
from gagpo.store import check_name
from gagpo.targets import Target, parse_target

KINDS = ("answer", "tags", "comment", "edit", "retract")
_KNOWN = {"id", "time", "reviewer", "kind", "target"}
_OWN = {
    "answer": {"question", "value"},
    "tags": {"add", "remove"},
    "comment": {"text"},
    "edit": {"of", "text"},
    "retract": {"of"},
}
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_TIME = re.compile(r"2[0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z")
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class Record:
    """One line: what its kind does not have is empty. `time` is UTC; as text it sorts as time does."""

    id: str
    time: str
    reviewer: str
    kind: str
    target: Target
    question: str = ""
    value: Value | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    text: str = ""
    of: str = ""
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


def parse_record(raw: dict[str, Any], where: str, reviewer: str) -> Record:
    """The record that a line holds; ValueError names what is wrong with it."""
    common = {name: text(raw, name, where) for name in ("id", "time", "reviewer", "kind", "target")}
    if not _ID.fullmatch(common["id"]):
        raise ValueError(f"{where}: id: {short(common['id'])}; expected 8 to 64 letters, digits, dashes")
    if common["reviewer"] != reviewer:
        raise ValueError(f"{where}: reviewer: {short(common['reviewer'])}; expected {reviewer!r}")
    kind = common["kind"]
    if kind not in KINDS:
        raise ValueError(f"{where}: kind: {unknown('kind', kind[:100], KINDS)}; it is left alone")
    if not is_time(common["time"]):
        came = short(common["time"])
        raise ValueError(f"{where}: time: {came}; expected such as 2026-12-03T14:10:00.000000Z")
    try:
        target = parse_target(common["target"])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    own: dict[str, Any] = {}
    if kind == "answer":
        check_name(f"{where}: question", text(raw, "question", where))
        own = {"question": raw["question"], "value": _value(raw.get("value"), f"{where}: value")}
    if kind == "tags":
        own = {name: _tags(raw, name, where) for name in ("add", "remove")}
        if not own["add"] and not own["remove"]:
            raise ValueError(f"{where}: add, remove: both empty; expected a tag")
    if kind in ("comment", "edit"):
        own["text"] = worded(raw.get("text"), f"{where}: text", MAX_TEXT)
    if kind in ("edit", "retract"):
        own["of"] = text(raw, "of", where)
    extra = {name: value for name, value in raw.items() if name not in _KNOWN | _OWN[kind]}
    return Record(**(common | {"target": target}), **own, extra=extra)


def _value(value: Any, where: str) -> Value:
    if isinstance(value, list) and len(value) <= MAX_ITEMS:
        return tuple(worded(item, where, MAX_TEXT) for item in value)
    if isinstance(value, str):
        return worded(value, where, MAX_TEXT)
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**31):
        return value
    raise ValueError(f"{where}: {short(value)}; expected a text, a whole number, a flag or a list of texts")


def _tags(raw: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    values = listed(raw, name, where) if name in raw else []
    if len(values) > MAX_ITEMS:
        raise ValueError(f"{where}: {name}: {len(values)} tags; expected {MAX_ITEMS} at most")
    return tuple(checked_tag(value, f"{where}: {name}") for value in values)


def is_time(time: str) -> bool:
    """Whether a record's time can be this text, which is also how times are compared."""
    try:
        return bool(_TIME.fullmatch(time) and datetime.fromisoformat(time[:-1]))
    except ValueError:
        return False
