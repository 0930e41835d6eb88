"""The grammar of searches: words, phrases and filters. docs/searching.md has examples.

    query  = [term {blank term}]             every term has to hold
    term   = ["-"] (text | field operator text)      "-" excludes
    text   = word | phrase
    word   = characters without blanks and quotes
    phrase = '"' {any character, '\\"' for a quote, '\\\\' for a backslash} '"'

A word that begins like a filter, letters and then an operator, is one: quote it to search for it.
Nothing that is searched for is a pattern; every character stands for itself.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gagpo.checked import unknown
from gagpo.table import Outcome

MOST_CHARACTERS = 10_000
MOST_TERMS = 64

TEXTS = ("observation", "action", "goal", "task", "final")
NAMES = ("run", "outcome")
FLAGS = ("success", "valid", "cut_off")
NUMBERS = (
    *("iteration", "sibling", "step", "seed", "policy_version", "reward", "return_to_go"),
    *("anchor_size", "value", "next_value", "td_error", "advantage", "normalized"),
)
FIELDS = (*TEXTS, *NAMES, *FLAGS, *NUMBERS)
OUTCOMES = tuple(outcome.name.lower() for outcome in Outcome)

_FILTER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(<=|>=|[:=<>])")
_WORD = re.compile(r'[^\s"]+')
_PHRASE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class QueryError(ValueError):
    """A query that cannot be read. `position` is where, as an index into the text, from 0."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(f"query: character {position + 1}: {message}")
        self.position = position


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on a step.

    field     a name of FIELDS; None for a text that may stand in any of TEXTS
    operator  ":" contains (texts), or is; "=" is the whole text (texts only); "<", "<=", ">", ">="
    value     str for texts and names, bool for flags, float for numbers
    """

    value: str | float | bool
    field: str | None = None
    operator: str = ":"
    excluded: bool = False

    def __str__(self) -> str:
        """The term as it can be typed; `parse_query` reads it back."""
        if isinstance(self.value, bool):
            text = str(self.value).lower()
        elif isinstance(self.value, (int, float)):
            text = repr(self.value).removesuffix(".0")
        else:
            text = self.value if self._is_plain(self.value) else _quoted(self.value)
        return ("-" if self.excluded else "") + (f"{self.field}{self.operator}" if self.field else "") + text

    def _is_plain(self, text: str) -> bool:
        """Whether a text can stand without quotes."""
        if not _WORD.fullmatch(text):
            return False
        return self.field is not None or not (text.startswith("-") or _FILTER.match(text))


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that all have to hold; none at all holds everywhere."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))


def parse_query(text: str) -> Query:
    """Read a query; a QueryError says where it is wrong and what was expected."""
    if len(text) > MOST_CHARACTERS:
        raise QueryError(MOST_CHARACTERS, f"{len(text)} in all; expected {MOST_CHARACTERS} at most")
    terms: list[Term] = []
    at = _skip_blanks(text, 0)
    while at < len(text):
        if len(terms) == MOST_TERMS:
            raise QueryError(at, f"one term more; expected {MOST_TERMS} at most")
        term, end = _read_term(text, at)
        terms.append(term)
        at = _skip_blanks(text, end)
        if at == end < len(text):
            raise QueryError(at, f"{text[at]!r} right after {text[end - 1]!r}; expected a blank between them")
    return Query(tuple(terms))


def _read_term(text: str, at: int) -> tuple[Term, int]:
    """The term that begins at `at`, and where it ends."""
    excluded = text[at] == "-"
    at += excluded
    found = _FILTER.match(text, at)
    if not found:
        if at == len(text) or text[at].isspace():
            raise QueryError(at - 1, "'-' alone; expected what to exclude right behind it")
        value, end = _read_text(text, at)
        if not value:
            raise QueryError(at, "an empty phrase; expected something to search for")
        return Term(value, excluded=excluded), end
    field, operator = found.groups()
    if field not in FIELDS:
        quoted = _quoted(_WORD.match(text, at)[0])
        raise QueryError(at, unknown("field", field, FIELDS) + f" (to search for the text: {quoted})")
    at = found.end()
    if at == len(text) or text[at].isspace():
        raise QueryError(at, f"nothing after {field}{operator}; expected {_expected(field)}")
    value, end = _read_text(text, at)
    return _filter(field, operator, value, excluded, at), end


def _filter(field: str, operator: str, text: str, excluded: bool, at: int) -> Term:
    """The term of a filter whose value is written as `text`, at `at`."""
    if operator not in ":=" and field not in NUMBERS:
        raise QueryError(
            at - len(operator), f"{field} cannot be compared by {operator!r}; expected ':' or '='"
        )
    if field in TEXTS:
        if not text and operator == ":":
            raise QueryError(at, f"an empty phrase is in every {field}; expected {_expected(field)}")
        return Term(text, field, operator, excluded)
    same = ":" if operator == "=" else operator
    if field in FLAGS and text in ("true", "false"):
        return Term(text == "true", field, same, excluded)
    if field in NUMBERS and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return Term(float(text), field, same, excluded)
    if field == "run" or (field == "outcome" and text.lower() in OUTCOMES):
        return Term(text if field == "run" else text.lower(), field, same, excluded)
    raise QueryError(at, f"{field} is {text!r}; expected {_expected(field)}")


def _expected(field: str) -> str:
    if field in FLAGS:
        return "true or false"
    if field in NUMBERS:
        return "a number"
    return f"one of {', '.join(OUTCOMES)}" if field == "outcome" else "a word or a phrase in quotes"


def _read_text(text: str, at: int) -> tuple[str, int]:
    """The word or phrase that begins at `at`, and where it ends."""
    if text[at] != '"':
        word = _WORD.match(text, at)
        return word[0], word.end()
    phrase = _PHRASE.match(text, at)
    if not phrase:
        raise QueryError(at, "this quote is never closed; expected another '\"' (one within is \\\")")
    return re.sub(r'\\(["\\])', r"\1", phrase[1]), phrase.end()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
