"""Reads official problems: the `pddl_problem` text of an ALFWorld game becomes a `Problem`.

Problem files come from outside. They are read by a small parser that is bounded in size and
nesting and understands only ALFWorld's vocabulary; anything else is refused by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from gagpo.envs.goals import read_goal
from gagpo.envs.problem import ABILITIES, Item, Problem, Receptacle, readable_names

Expression = "str | list"  # nested lists of words

MAX_CHARACTERS = 4_000_000
MAX_DEPTH = 32
MAX_FACTS = 20_000  # official games have up to 1,100
MAX_THINGS = 500  # receptacles and objects together; official games have up to 120
MAX_PLACES = 500  # locations that something is at; official games have up to 70
# init predicates by the number of their arguments
STATIC = dict.fromkeys(ABILITIES, 1) | {"openable": 1}
CONDITION_FACTS = {
    "isclean": "clean",
    "ishot": "hot",
    "iscool": "cool",
    "istoggled": "toggled",
    "issliced": "sliced",
}
PAIRS = (
    "receptacletype",
    "objecttype",
    "cancontain",
    "receptacleatlocation",
    "objectatlocation",
    "inreceptacle",
    "inreceptacleobject",
    "atlocation",
)
# Facts that no rule, text or goal of the domain asks for.
INERT = {
    "checked": 1,
    "examined": 1,
    "full": 1,
    "ison": 1,
    "moveable": 1,
    "isreceptacleobjectfull": 1,
    "wasinreceptacle": 2,
}
ARITY = STATIC | dict.fromkeys(CONDITION_FACTS, 1) | {"opened": 1} | dict.fromkeys(PAIRS, 2) | INERT

Facts = dict[str, list[list[str]]]


def read_problem(text: str, sentence: str, walkthrough: Sequence[str] = ()) -> Problem:
    """The problem in a PDDL text; `sentence` is the task in words, with its full stop.

    Raises ValueError, naming the place, where the text is not a problem of ALFWorld's domain.
    """
    sections = _sections(parse(text))
    facts = _facts(sections[":init"])
    receptacle_type = _single(facts, "receptacletype")
    object_type = _single(facts, "objecttype")
    location = _single(facts, "receptacleatlocation")
    openable = {r for (r,) in facts["openable"]}
    able: dict[str, set[str]] = defaultdict(set)
    for ability in ABILITIES:
        for (o,) in facts[ability]:
            able[o].add(ability)
    conditions = frozenset((name, o) for fact, name in CONDITION_FACTS.items() for (o,) in facts[fact])
    receptacles = {*receptacle_type, *location, *openable, *(r for (r,) in facts["opened"])}
    receptacles |= {r for _, r in facts["inreceptacle"]}
    objects = {*object_type, *able, *(o for _, o in conditions)}
    objects |= {o for name in ("inreceptacle", "objectatlocation") for o, _ in facts[name]}
    objects |= {o for pair in facts["inreceptacleobject"] for o in pair}
    _check_things(receptacles, objects)
    places = {*location.values(), *(place for _, place in facts["objectatlocation"])}
    if len(places) > MAX_PLACES:
        raise ValueError(f":init: {len(places)} locations; expected at most {MAX_PLACES}")
    starts = {place for _, place in facts["atlocation"]}
    if len(starts) != 1:
        raise ValueError(f":init: {len(starts)} locations of the agent (atLocation); expected one")
    type_names = {type: _type_name(type) or type for type in {*chain.from_iterable(facts["cancontain"])}}
    return Problem(
        receptacles=tuple(
            Receptacle(r, _type_name(receptacle_type.get(r)), location.get(r), r in openable)
            for r in sorted(receptacles)
        ),
        objects=tuple(
            Item(o, _type_name(object_type.get(o)), frozenset(able.get(o, ()))) for o in sorted(objects)
        ),
        can_contain=frozenset((type_names[r], type_names[o]) for r, o in facts["cancontain"]),
        start=starts.pop(),
        inside=frozenset((o, r) for o, r in facts["inreceptacle"]),
        nearby=frozenset((o, place) for o, place in facts["objectatlocation"]),
        contents=frozenset((inner, outer) for inner, outer in facts["inreceptacleobject"]),
        opened=frozenset(r for (r,) in facts["opened"]),
        conditions=conditions,
        goal=read_goal(sections[":goal"]),
        sentence=sentence,
        names=readable_names(chain.from_iterable(chain.from_iterable(facts.values()))),
        walkthrough=tuple(walkthrough),
    )


def _check_things(receptacles: set[str], objects: set[str]) -> None:
    if len(receptacles) + len(objects) > MAX_THINGS:
        raise ValueError(
            f":init: {len(receptacles)} receptacles and {len(objects)} objects; "
            f"expected at most {MAX_THINGS} together"
        )
    if receptacles & objects:
        raise ValueError(f":init: {_short(min(receptacles & objects))} is both a receptacle and an object")


def parse(text: str) -> Expression:
    """The one expression in a text, in lower case: nested lists of words."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"pddl: {len(text)} characters; expected at most {MAX_CHARACTERS}")
    text = text.lower()
    if ";" in text:
        text = "\n".join(line.partition(";")[0] for line in text.splitlines())
    before, *chunks = text.split("(")
    top: list[Expression] = before.split()
    stack = [top]
    if ")" in before:
        raise ValueError("pddl: the first parenthesis closes what was never opened")
    # Most of a problem are flat facts, so what stands between two opening ones is read at once.
    for i, chunk in enumerate(chunks):
        if len(stack) > MAX_DEPTH:
            raise ValueError(f"pddl: nested deeper than {MAX_DEPTH} at opening parenthesis {i + 1}")
        words, closing, rest = chunk.partition(")")
        inner: list[Expression] = words.split()
        stack[-1].append(inner)
        if closing and not rest.strip():
            continue
        stack.append(inner)
        for words in rest.split(")") if closing else ():
            if len(stack) == 1:
                raise ValueError(f"pddl: after opening parenthesis {i + 1}, one closes what was never opened")
            stack.pop()
            stack[-1].extend(words.split())
    if len(stack) != 1:
        raise ValueError(f"pddl: {len(stack) - 1} parentheses are never closed")
    if len(top) != 1:
        raise ValueError(f"pddl: {len(top)} expressions; expected one, (define (problem ...) ...)")
    return top[0]


def _sections(expression: Expression) -> dict[str, list[Expression]]:
    """The parts of (define (problem name) (:init ...) ...), by their names."""
    if not isinstance(expression, list) or expression[:1] != ["define"]:
        raise ValueError("pddl: does not start with (define ...")
    sections: dict[str, list[Expression]] = {}
    for part in expression[1:]:
        if not isinstance(part, list) or not part or not isinstance(part[0], str):
            raise ValueError(f"pddl: {_short(part)} is not a section of a problem")
        if part[0] in sections:
            raise ValueError(f"pddl: section {_short(part[0])} occurs twice")
        sections[part[0]] = part[1:]
    if sections.get(":domain") != ["alfred"]:
        raise ValueError(f"pddl: domain {_short(sections.get(':domain', []))}; expected (:domain alfred)")
    for name in ("problem", ":init", ":goal"):
        if name not in sections:
            raise ValueError(f"pddl: no section {name}")
    return sections


def _facts(init: Sequence[Expression]) -> Facts:
    """Arguments of the facts, by predicate. Costs, as in (= (total-cost) 0), are skipped."""
    if len(init) > MAX_FACTS:
        raise ValueError(f":init: {len(init)} facts; expected at most {MAX_FACTS}")
    facts: Facts = defaultdict(list)
    for fact in init:
        if not isinstance(fact, list) or set(map(type, fact)) != {str}:  # nor is an empty one
            if isinstance(fact, list) and fact[:1] == ["="]:
                continue
            raise ValueError(f":init: {_short(fact)} is not a fact")
        name, *arguments = fact
        if ARITY.get(name) == len(arguments):
            facts[name].append(arguments)
        elif name in ARITY:
            raise ValueError(f":init: {_short(fact)} has {len(arguments)} arguments; expected {ARITY[name]}")
        elif name != "=":
            known = ", ".join(sorted(ARITY))
            raise ValueError(f":init: fact {name[:80]!r} is not supported; known are {known}")
    return facts


def _single(facts: Facts, name: str) -> dict[str, str]:
    """A fact that says one thing about each id."""
    values: dict[str, str] = {}
    for id, value in facts[name]:
        if values.setdefault(id, value) != value:
            both = f"{_short(values[id])} and {_short(value)}"
            raise ValueError(f":init: {name} of {_short(id)} is both {both}; expected one")
    return values


def _type_name(type: str | None) -> str | None:
    return None if type is None else type.removesuffix("type")


def _short(expression: Expression) -> str:
    """An expression in at most 80 characters that can be shown, for a message."""
    plain = isinstance(expression, str) and expression.isprintable()
    text = str(expression) if plain else repr(expression)
    return text if len(text) <= 80 else text[:77] + "..."
