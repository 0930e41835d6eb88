"""What reviewers are asked: a named set of questions, read from a JSON file.

    {
      "name": "agent trajectories",
      "questions": [
        {"id": "outcome", "kind": "choice", "ask": "What became of the task?", "key": "o", "required": true,
         "options": [{"id": "solved", "key": "1"}, {"id": "failed", "ask": "Not done", "key": "2"}]},
        {"id": "care", "kind": "scale", "ask": "How careful was it?", "low": 1, "high": 5}
      ],
      "tags": ["reward hacking"]
    }

Kinds of questions, and their answers as JSON:

    choice   one of the options, by its id        scale   a whole number from low to high
    choices  a list of options, maybe empty       step    the number of a step of the trajectory
    flag     true or false                        text    words

`on` says what is asked about: "trajectory" (the default), "step" or "span". A trajectory is reviewed once
its required questions are answered. `key` is the key that a front end gives a question, or an option while
its question is open. The file is hostile until it is parsed; errors name the file, the field, what came
and what is expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gagpo.checked import unknown
from gagpo.importers.entries import parse
from gagpo.importers.fields import listed, mapping, short, text, whole
from gagpo.plain_files import open_plain
from gagpo.store import Run
from gagpo.targets import LARGEST, Target

MAX_BYTES = 1 << 18
MAX_ITEMS = 100  # questions of a set, options of a question, tags
MAX_ASKED = 2000  # characters of a question
MAX_TEXT = 20_000  # characters of an answer in words, and of a comment
MAX_TAG = 100
LEVELS = ("trajectory", "step", "span")
OPTIONAL = {"ask", "description", "key"}
# kind -> the fields that only it has
KINDS: dict[str, tuple[str, ...]] = {
    "choice": ("options",),
    "choices": ("options",),
    "scale": ("low", "high"),
    "flag": (),
    "text": (),
    "step": (),
}
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Value = str | int | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """One possible answer; `ask` is how it is worded, its id where nothing is said."""

    id: str
    ask: str
    description: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that is asked about a trajectory, a step or a span."""

    id: str
    kind: str
    ask: str
    description: str = ""
    key: str = ""
    required: bool = False
    on: str = "trajectory"
    options: tuple[Option, ...] = ()
    low: int = 0
    high: int = 0

    def check(self, value: Any, target: Target) -> Value:
        """The answer as it is recorded; ValueError where it is none to this question."""
        where = f"answer to {self.id!r}"
        if target.level != self.on:
            raise ValueError(f"{where}: it is about a {target.level}; expected a {self.on}")
        ids = [option.id for option in self.options]
        if self.kind == "choice" and value not in ids:
            raise ValueError(f"{where}: {short(value)}; expected one of {', '.join(ids)}")
        if self.kind == "choices":
            if not isinstance(value, (list, tuple)) or any(item not in ids for item in value):
                raise ValueError(f"{where}: {short(value)}; expected a list of some of {', '.join(ids)}")
            return tuple(name for name in ids if name in value)
        if self.kind == "scale":
            return whole(value, where, self.low, self.high)
        if self.kind == "step":
            return whole(value, where, 0, LARGEST)
        if self.kind == "flag" and not isinstance(value, bool):
            raise ValueError(f"{where}: {short(value)}; expected true or false")
        return worded(value, where, MAX_TEXT) if self.kind == "text" else value


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The questions of a review by id, in order, and tags to offer (any others can be given too)."""

    name: str
    questions: dict[str, Question]
    description: str = ""
    tags: tuple[str, ...] = ()

    def question(self, name: str) -> Question:
        """The question with that id; ValueError names the nearest where there is none."""
        if name not in self.questions:
            raise ValueError(f"question: {unknown('question', str(name)[:100], self.questions)}")
        return self.questions[name]

    @property
    def required(self) -> list[str]:
        """The questions that have to be answered of every trajectory."""
        return [q.id for q in self.questions.values() if q.required and q.on == "trajectory"]


def read_labels(run: Run, path: Path | None = None) -> LabelSet:
    """The label set in `path`, else in the run's labels.json, else the built-in one."""
    found = path or run.path / "labels.json"
    if path is None and not found.exists():
        return DEFAULT_LABELS
    with open_plain(found) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{found}: longer than {MAX_BYTES} bytes")
    return parse_labels(content, str(found))


def parse_labels(content: bytes, where: str = "labels") -> LabelSet:
    """The label set of a JSON file's bytes."""
    record = mapping(parse(content, where), where, "a label set, an object with name and questions")
    _fields(record, where, {"name", "questions"}, {"description", "tags"})
    questions = {}
    for i, item in enumerate(_items(record, "questions", where)):
        question = _question(item, f"{where}: questions[{i}]")
        if question.id in questions:
            raise ValueError(f"{where}: questions[{i}]: id {question.id!r} stands twice")
        questions[question.id] = question
    if not questions:
        raise ValueError(f"{where}: questions: empty; expected at least one")
    _unique_keys(questions.values(), f"{where}: questions")
    raw = _items(record, "tags", where) if "tags" in record else []
    tags = tuple(checked_tag(tag, f"{where}: tags[{i}]") for i, tag in enumerate(raw))
    if len(set(tags)) < len(tags):
        raise ValueError(f"{where}: tags: one stands twice")
    name = worded(text(record, "name", where), f"{where}: name", MAX_TAG)
    return LabelSet(name, questions, _described(record, where), tags)


def checked_tag(value: Any, where: str) -> str:
    """A tag: printable characters on one line, without blanks around them."""
    is_tag = isinstance(value, str) and 0 < len(value) <= MAX_TAG and value.strip() == value
    if not is_tag or not value.isprintable():
        raise ValueError(f"{where}: {short(value)}; expected 1 to {MAX_TAG} printable characters on one line")
    return value


def worded(value: Any, where: str, most: int) -> str:
    """A text of 1 to `most` characters that is not all blanks."""
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        came = f"{len(value)} characters" if isinstance(value, str) and len(value) > most else short(value)
        raise ValueError(f"{where}: {came}; expected a text of 1 to {most} characters")
    return text({"text": value}, "text", where)


def _question(item: Any, where: str) -> Question:
    record = mapping(item, where, "a question, an object with id, kind and ask")
    kind = text(record, "kind", where)
    if kind not in KINDS:
        raise ValueError(f"{where}: kind: {unknown('kind', kind[:100], KINDS)}; one of {', '.join(KINDS)}")
    own = set(KINDS[kind])
    _fields(record, where, {"id", "kind", "ask"} | own, {"description", "key", "required", "on"})
    on = record.get("on", "trajectory")
    if on not in LEVELS:
        raise ValueError(f"{where}: on: {short(on)}; expected one of {', '.join(LEVELS)}")
    required = record.get("required", False)
    if not isinstance(required, bool) or (required and on != "trajectory"):
        expected = "true or false" if on == "trajectory" else f"no true for a question on a {on}"
        raise ValueError(f"{where}: required: {short(required)}; expected {expected}")
    if kind == "step" and on != "trajectory":
        raise ValueError(f"{where}: on: {short(on)}; a question for a step is about a trajectory")
    low = high = 0
    if "low" in own:
        low = whole(record["low"], f"{where}: low", -1000, 1000)
        high = whole(record["high"], f"{where}: high", low + 1, low + 1000)
    options = _options(record, where) if "options" in own else ()
    ask = worded(record["ask"], f"{where}: ask", MAX_ASKED)
    shown = _described(record, where), _key(record, where)
    return Question(_named(record, where), kind, ask, *shown, required, on, options, low, high)


def _options(record: dict[str, Any], where: str) -> tuple[Option, ...]:
    options = []
    for i, item in enumerate(_items(record, "options", where)):
        place = f"{where}: options[{i}]"
        own = {"id": item} if isinstance(item, str) else mapping(item, place, "an option, an object with id")
        _fields(own, place, {"id"}, OPTIONAL)
        name = _named(own, place)
        ask = worded(own.get("ask", name), f"{place}: ask", MAX_ASKED)
        options.append(Option(name, ask, _described(own, place), _key(own, place)))
    if len(options) < 2 or len({option.id for option in options}) < len(options):
        raise ValueError(f"{where}: options: expected at least two, with different ids")
    _unique_keys(options, f"{where}: options")
    return tuple(options)


def _fields(record: dict[str, Any], where: str, needed: set[str], optional: set[str]) -> None:
    for name in record:
        if name not in needed | optional:
            raise ValueError(f"{where}: {unknown('field', name[:100], sorted(needed | optional))}")
    for name in sorted(needed - record.keys()):
        raise ValueError(f"{where}: {name}: missing")


def _items(record: dict[str, Any], key: str, where: str) -> list[Any]:
    values = listed(record, key, where)
    if len(values) > MAX_ITEMS:
        raise ValueError(f"{where}: {key}: {len(values)}; expected {MAX_ITEMS} at most")
    return values


def _named(record: dict[str, Any], where: str) -> str:
    name = record["id"]
    if not isinstance(name, str) or not _ID.fullmatch(name):
        expected = "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit"
        raise ValueError(f"{where}: id: {short(name)}; expected {expected}")
    return name


def _described(record: dict[str, Any], where: str) -> str:
    if "description" not in record:
        return ""
    return worded(record["description"], f"{where}: description", MAX_ASKED)


def _key(record: dict[str, Any], where: str) -> str:
    key = record.get("key", "")
    if "key" in record and not (isinstance(key, str) and len(key) == 1 and "!" <= key <= "~"):
        raise ValueError(f"{where}: key: {short(key)}; expected one printable ASCII character")
    return key


def _unique_keys(items: Any, where: str) -> None:
    keys = [item.key for item in items if item.key]
    if len(set(keys)) < len(keys):
        raise ValueError(f"{where}: key: one stands twice")


DEFAULT_LABELS = parse_labels((Path(__file__).parent / "labels.json").read_bytes(), "labels.json")
