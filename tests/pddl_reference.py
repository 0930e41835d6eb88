"""A slow and general reading of PDDL, to hold the rules against what a domain text itself says.

Nothing here knows of households: actions, conditions and effects come from the domain, are grounded
by trying, and are applied as the language defines. Two habits of the planner behind TextWorld are
kept, since players see them: an operator that cannot change anything whatever the state is dropped
(going to where one already is), and an unknown type has no objects.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

Atom = tuple[str, ...]
Binding = dict[str, str]


class Schema(NamedTuple):
    """An action of the domain: its parameters in order with their types."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    precondition: list
    effect: list


class Operator(NamedTuple):
    """A ground action."""

    schema: Schema
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        return " ".join((self.schema.name, *self.arguments))


def read(text: str) -> list:
    """The expression in a text, in lower case, as nested lists."""
    stack: list[list] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text.lower())):
        if token == "(":
            stack.append([])
        elif token == ")":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    [[expression]] = stack
    return expression


def typed(words: list[str]) -> Iterator[tuple[str, str]]:
    """(name, type) of a list such as "?a ?b - object ?c - agent"."""
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-":
            kind = next(rest)
            yield from ((name, kind) for name in names)
            names = []
        else:
            names.append(word)
    yield from ((name, "object") for name in names)


class PddlReference:
    """One problem, played. `facts` is the state: the atoms that hold."""

    def __init__(self, domain: str, problem: str) -> None:
        parts, problem_parts = read(domain), read(problem)
        sections = {part[0]: part[1:] for part in problem_parts[1:]}
        self.types = [part for section in parts if section[0] == ":types" for part in section[1:]]
        self.kind_of = dict(typed(sections[":objects"]))
        self.names_of: dict[str, list[str]] = defaultdict(list)
        for name, kind in self.kind_of.items():
            self.names_of[kind].append(name)
        self.schemas = [self._schema(part) for part in parts if part[0] == ":action"]
        self.init = [tuple(fact) for fact in sections[":init"] if fact[0] != "="]
        [self.goal] = sections[":goal"]
        self.facts = set(self.init)

    @staticmethod
    def _schema(part: list) -> Schema:
        fields = dict(zip(part[2::2], part[3::2], strict=True))
        effect = fields[":effect"]
        effects = effect[1:] if effect[:1] == ["and"] else [effect]
        return Schema(part[1], tuple(typed(fields[":parameters"])), fields[":precondition"], effects)

    def won(self) -> bool:
        return self.holds(self.goal, {})

    def operators(self) -> list[Operator]:
        """Every operator that is applicable and could change something in some state."""
        rows: dict[str, list[Atom]] = defaultdict(list)
        for fact in self.facts:
            rows[fact[0]].append(fact)
        found: dict[str, Operator] = {}
        for schema in self.schemas:
            for binding in self._bindings(schema, rows):
                if self.holds(schema.precondition, binding) and not self._is_idle(schema, binding):
                    arguments = tuple(binding[name] for name, _ in schema.parameters)
                    operator = Operator(schema, arguments)
                    found[operator.name] = operator
        return [found[name] for name in sorted(found)]

    def effects(self, operator: Operator) -> list[tuple[bool, Atom]]:
        """(added, atom) of what the operator does here; an atom added is not deleted too."""
        names = (name for name, _ in operator.schema.parameters)
        binding = dict(zip(names, operator.arguments, strict=True))
        effects = list(self._effects(operator.schema.effect, binding))
        added = {atom for is_added, atom in effects if is_added}
        return [(is_added, atom) for is_added, atom in effects if is_added or atom not in added]

    def apply(self, operator: Operator) -> None:
        effects = self.effects(operator)
        self.facts = self.facts - {atom for is_added, atom in effects if not is_added}
        self.facts |= {atom for is_added, atom in effects if is_added}

    def holds(self, condition: list, binding: Mapping[str, str]) -> bool:
        if not condition:
            return True
        head, *rest = condition
        if head == "and":
            return all(self.holds(part, binding) for part in rest)
        if head == "or":
            return any(self.holds(part, binding) for part in rest)
        if head == "not":
            return not self.holds(rest[0], binding)
        if head == "exists":
            return self._exists(list(typed(rest[0])), rest[1], binding)
        words = [binding.get(word, word) for word in rest]
        return words[0] == words[1] if head == "=" else (head, *words) in self.facts

    def _exists(self, variables: list[tuple[str, str]], body: list, binding: Mapping[str, str]) -> bool:
        if not variables:
            return self.holds(body, binding)
        (name, kind), *rest = variables
        return any(self._exists(rest, body, {**binding, name: value}) for value in self.names_of[kind])

    def _bindings(self, schema: Schema, rows: Mapping[str, list[Atom]]) -> Iterator[Binding]:
        """Values for the parameters that the plain facts among the conditions allow."""
        condition = schema.precondition
        parts = condition[1:] if condition[:1] == ["and"] else [condition]
        plain = [part for part in parts if part and part[0] not in ("and", "or", "not", "exists", "=")]
        bindings: list[Binding] = [{}]
        for predicate, *words in sorted(plain, key=lambda part: len(rows[part[0]])):
            bindings = [
                merged
                for binding in bindings
                for fact in rows[predicate]
                if (merged := _merge(binding, words, fact[1:])) is not None
            ]
        for name, kind in schema.parameters:
            known = set(self.names_of[kind])
            bindings = [
                {**binding, name: value}
                for binding in bindings
                for value in ([binding[name]] if name in binding else self.names_of[kind])
                if value in known
            ]
        yield from bindings

    def _is_idle(self, schema: Schema, binding: Binding) -> bool:
        """Whether all that it adds is among its conditions, and it deletes nothing else."""
        effects = [part for part in schema.effect if part[0] != "increase"]
        condition = schema.precondition
        needed = {_ground(part, binding) for part in condition[1:] if condition[0] == "and"}
        if any(part[0] == "when" for part in effects):
            return False
        added = {_ground(part, binding) for part in effects if part[0] != "not"}
        deleted = {_ground(part[1], binding) for part in effects if part[0] == "not"}
        return added <= needed and deleted <= added

    def _effects(self, parts: list, binding: Binding) -> Iterator[tuple[bool, Atom]]:
        for part in parts:
            if part[0] == "when":
                if self.holds(part[1], binding):
                    yield from self._effects([part[2]], binding)
            elif part[0] == "not":
                yield False, _ground(part[1], binding)
            elif part[0] != "increase":
                yield True, _ground(part, binding)


def _merge(binding: Binding, words: list[str], values: Atom) -> Binding | None:
    merged = dict(binding)
    for word, value in zip(words, values, strict=True):
        if (merged.setdefault(word, value) if word.startswith("?") else word) != value:
            return None
    return merged


def _ground(part: list, binding: Binding) -> Atom:
    return tuple(binding.get(word, word) if isinstance(word, str) else "" for word in part)
