"""What a household problem is: the facts that never change, the facts it starts with, and its goal.

Official and generated games alike become a `Problem`; `gagpo.envs.rules` plays it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
# What a treatment makes of an object, and the ability that the object needs for it.
CONDITIONS = {"clean": "cleanable", "hot": "heatable", "cool": "coolable"}
CONDITION_OF_TASK = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "hot",
    "pick_cool_then_place_in_recep": "cool",
}
# Which receptacle types treat, and by which verb.
APPLIANCES = {
    "clean": ("clean", ("sink", "sinkbasin")),
    "hot": ("heat", ("microwave",)),
    "cool": ("cool", ("fridge",)),
}
ABILITIES = (
    "pickupable",
    "cleanable",
    "heatable",
    "coolable",
    "sliceable",
    "toggleable",
    "isreceptacleobject",
)


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place for objects. Without a location nothing can reach it; without a type it takes nothing."""

    id: str
    type: str | None
    location: str | None
    openable: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """An object, with what can be done to it (names from ABILITIES)."""

    id: str
    type: str | None
    abilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold at the end.

    With a `receptacle_type`: `count` objects of `object_type`, in `condition` where one is
    given, lie in one receptacle of that type. With a `lamp_type`: the agent holds an object of
    `object_type` at the location of a lamp that has been used.
    """

    task_type: str
    object_type: str
    receptacle_type: str | None = None
    condition: str | None = None
    lamp_type: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One household task. Ids are lower-case PDDL names; types have no "type" at their end.

    can_contain    pairs (receptacle type, object type)
    start          the location of the agent
    inside         pairs (object, receptacle); an object can be in two receptacles
    nearby         pairs (object, location): PDDL's objectAtLocation
    contents       pairs (inner object, outer object), which nothing changes
    opened         receptacles that are open at the start
    conditions     pairs ("clean" | "hot" | "cool" | "toggled" | "sliced", object) at the start
    sentence       the task in words, with its full stop
    names          pairs (id, name a player reads)
    walkthrough    commands that reach the goal, where they are known
    """

    receptacles: tuple[Receptacle, ...]
    objects: tuple[Item, ...]
    can_contain: frozenset[tuple[str, str]]
    start: str
    inside: frozenset[tuple[str, str]]
    nearby: frozenset[tuple[str, str]]
    goal: Goal
    sentence: str
    names: tuple[tuple[str, str], ...]
    contents: frozenset[tuple[str, str]] = frozenset()
    opened: frozenset[str] = frozenset()
    conditions: frozenset[tuple[str, str]] = frozenset()
    walkthrough: tuple[str, ...] = field(default=(), compare=False)


def kind_of(id: str) -> str:
    """What an id names: the part before "_bar_"; a basin is told from its sink or bathtub."""
    return id.partition("_bar_")[0] + ("basin" if "basin" in id else "")


def readable_names(ids: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(id, name) in the order of the ids. Names of a kind count down: the last id is number 1.
    Ids without "_bar_" are placeholders and get no name."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for id in sorted(set(ids)):
        if "_bar_" in id:
            kinds[kind_of(id)].append(id)
    named = ((id, f"{kind} {len(ids) - i}") for kind, ids in kinds.items() for i, id in enumerate(ids))
    return tuple(sorted(named))
