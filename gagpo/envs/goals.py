"""Reads the goal of a PDDL problem: the six shapes that ALFWorld's tasks have.

A goal becomes a set of literals over variables, so neither their order nor their nesting in
(and ...) and (exists ...) matters, and must equal what one of the task types asks for. Other
shapes are refused: a goal that is only nearly understood would reward the wrong thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, permutations

from gagpo.envs.problem import CONDITION_OF_TASK, CONDITIONS, Goal

Literal = tuple[str, ...]
MAX_WORDS = 1000  # brackets included; official goals have up to 70


def read_goal(section: Sequence) -> Goal:
    """The goal in the body of a parsed (:goal ...) section, whose nesting the parser has bounded."""
    if (num_words := _num_words(section)) > MAX_WORDS:
        raise ValueError(f":goal: {num_words} words; expected at most {MAX_WORDS}")
    numbers = count()
    literals = {literal for part in section for literal in _literals(part, {}, numbers)}
    for goal, expected in _candidates(literals):
        if expected == literals:
            return goal
    shown = " ".join("(" + " ".join(literal) + ")" for literal in sorted(literals))
    raise ValueError(f":goal: not the goal of one of ALFWorld's six task types: {shown[:400]!r}")


def _num_words(expression: object) -> int:
    """Words and brackets: what is done with a goal takes up to their square."""
    return 1 + sum(map(_num_words, expression)) if isinstance(expression, list) else 1


def _literals(expression: object, scope: Mapping[str, str], numbers: Iterator[int]) -> Iterator[Literal]:
    """The conditions of an expression; every variable gets a number, so that no two share a name."""
    if not isinstance(expression, list) or not expression:
        raise ValueError(f":goal: {str(expression)[:80]!r} is not a condition")
    head, *rest = expression
    if head == "and":
        for part in rest:
            yield from _literals(part, scope, numbers)
    elif head == "exists" and len(rest) == 2 and isinstance(rest[0], list):
        names = [word for word in rest[0] if isinstance(word, str) and word.startswith("?")]
        scope = {**scope, **{name: f"{name}.{next(numbers)}" for name in names}}
        yield from _literals(rest[1], scope, numbers)
    elif head == "not" and len(rest) == 1 and isinstance(rest[0], list) and rest[0][:1] == ["="]:
        yield ("differ", *sorted(_bound(word, scope) for word in rest[0][1:]))
    elif isinstance(head, str) and head not in ("or", "not", "forall", "exists", "imply", "when"):
        yield (head, *(_bound(word, scope) for word in rest))
    else:
        raise ValueError(f":goal: {str(expression)[:80]!r} is not supported; expected and, exists, not =")


def _bound(word: object, scope: Mapping[str, str]) -> str:
    """A variable's numbered name, or the constant itself."""
    if not isinstance(word, str):
        raise ValueError(f":goal: {str(word)[:80]!r} where a variable or a constant was expected")
    if word.startswith("?") and word not in scope:
        raise ValueError(f":goal: variable {ascii(word[:80])[1:-1]} is not bound")
    return scope.get(word, word)


def _candidates(literals: set[Literal]) -> Iterator[tuple[Goal, set[Literal]]]:
    """Goals with these types, each with the literals that say it."""
    objects = _types(literals, "objecttype")
    receptacles = _types(literals, "receptacletype")
    if len(receptacles) == 1 and objects:
        [(r, place)] = receptacles.items()
        thing = next(iter(objects.values()))
        said = {("receptacletype", r, f"{place}type")}
        said |= {literal for o in objects for literal in _lies_in(o, f"{thing}type", r)}
        if len(objects) == 2:
            yield Goal("pick_two_obj_and_place", thing, place, count=2), {*said, ("differ", *sorted(objects))}
        if len(objects) == 1:
            [o] = objects
            yield Goal("pick_and_place_simple", thing, place), said
            for task_type, condition in CONDITION_OF_TASK.items():
                treated = {(CONDITIONS[condition], o), (f"is{condition}", o)}
                yield Goal(task_type, thing, place, condition), said | treated
    if not receptacles and len(objects) == 2:
        for lamp, o in permutations(objects):
            goal = Goal("look_at_obj_in_light", objects[o], lamp_type=objects[lamp])
            yield goal, _seen_in_light(literals, lamp, o, objects)


def _types(literals: set[Literal], predicate: str) -> dict[str, str]:
    """Variable -> type name without its "type" at the end."""
    return {
        literal[1]: literal[2].removesuffix("type")
        for literal in sorted(literals)
        if literal[0] == predicate and len(literal) == 3 and literal[1].startswith("?")
    }


def _lies_in(o: str, type: str, r: str) -> set[Literal]:
    return {("objecttype", o, type), ("inreceptacle", o, r)}


def _seen_in_light(literals: set[Literal], lamp: str, o: str, objects: Mapping[str, str]) -> set[Literal]:
    """What a light goal says, in the variables for receptacle, location and agent that occur."""

    def variable(predicate: str, position: int) -> str:
        found = [x[position] for x in literals if x[0] == predicate and len(x) > position]
        return found[0] if len(found) == 1 and found[0].startswith("?") else "?"

    r, place = variable("inreceptacle", 2), variable("receptacleatlocation", 2)
    return {
        ("objecttype", lamp, f"{objects[lamp]}type"),
        ("objecttype", o, f"{objects[o]}type"),
        ("toggleable", lamp),
        ("istoggled", lamp),
        ("inreceptacle", lamp, r),
        ("receptacleatlocation", r, place),
        ("atlocation", variable("atlocation", 1), place),
        ("holds", variable("holds", 1), o),
    }
