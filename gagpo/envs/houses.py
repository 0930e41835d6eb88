"""The generator: a furnished house with one task in it, as a `Problem`.

To the agent a house is one place: in ALFWorld's world, every receptacle can be gone to from
everywhere. Rooms say what a house is furnished with, and are nothing to walk through.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from gagpo.envs.problem import (
    APPLIANCES,
    CONDITION_OF_TASK,
    CONDITIONS,
    Goal,
    Item,
    Problem,
    Receptacle,
    readable_names,
)
from gagpo.envs.rooms import ABLE, FITS, FIXED, OPENABLE, ROOM_OBJECTS, ROOMS, abilities

LAMP = "desklamp"
START = "loc_bar_00"
CAN_CONTAIN = frozenset((place, thing) for place, things in FITS.items() for thing in things)
# A basin is part of something else, and its id says so: sink_bar_01_bar_sinkbasin.
WHOLES = {"sinkbasin": "sink", "bathtubbasin": "bathtub"}

SENTENCES = {
    "pick_and_place_simple": "put a {object} in {place}.",
    "look_at_obj_in_light": "look at {object} under the desklamp.",
    "pick_clean_then_place_in_recep": "put a clean {object} in {place}.",
    "pick_heat_then_place_in_recep": "put a hot {object} in {place}.",
    "pick_cool_then_place_in_recep": "put a cool {object} in {place}.",
    "pick_two_obj_and_place": "put two {object} in {place}.",
}


class Errand(NamedTuple):
    """What a task is about; `host` is the receptacle type that it needs besides: an appliance, or
    what the lamp stands on."""

    rooms: tuple[str, ...]
    object_type: str
    destination: str | None
    source: str
    host: str | None


def generate(
    task_type: str,
    rng: random.Random,
    num_receptacles: int,
    num_objects: int,
    *,
    num_rooms: int = 1,
    num_spares: int | None = None,
) -> Problem:
    """One house. What the task needs comes first; the rest is drawn from what its rooms usually
    hold. Objects of the wanted type never start at a receptacle of the wanted type, so each of them
    would do. The dials are those of `WorldConfig`."""
    check_num_objects(task_type, num_objects, num_spares)
    errand = _draw_errand(task_type, rng, num_rooms)
    light = task_type == "look_at_obj_in_light"
    goal = Goal(
        task_type,
        errand.object_type,
        receptacle_type=errand.destination,
        condition=CONDITION_OF_TASK.get(task_type),
        lamp_type=LAMP if light else None,
        count=_count(task_type),
    )
    places = _furnish(errand, rng, num_receptacles)
    receptacles = [
        Receptacle(id, type, f"loc_bar_{i:02d}", type in OPENABLE)
        for i, (id, type) in enumerate(_numbered(places), start=1)
    ]
    things = [errand.object_type] * (goal.count + (num_spares or 0)) + [LAMP] * light
    objects = _place_objects(errand, things, receptacles, rng, num_objects, num_spares is None)
    location = {r.id: r.location or START for r in receptacles}
    return Problem(
        receptacles=tuple(receptacles),
        objects=tuple(Item(id, type, abilities(type)) for id, type, _ in objects),
        can_contain=CAN_CONTAIN,
        start=START,
        inside=frozenset((id, place) for id, _, place in objects),
        nearby=frozenset((id, location[place]) for id, _, place in objects),
        goal=goal,
        sentence=SENTENCES[task_type].format(object=errand.object_type, place=errand.destination),
        names=readable_names([*location, *(id for id, _, _ in objects)]),
    )


def check_num_objects(task_type: str, num_objects: int, num_spares: int | None) -> None:
    """Raises ValueError where the spare objects and those that the task needs are too many."""
    most = num_objects - _count(task_type) - (task_type == "look_at_obj_in_light")
    if (num_spares or 0) > most:
        raise ValueError(
            f"num_spares: {num_spares}; expected at most {most}, for {task_type} needs "
            f"{num_objects - most} of the {num_objects} objects (num_objects)"
        )


def _count(task_type: str) -> int:
    return 2 if task_type == "pick_two_obj_and_place" else 1


def _draw_errand(task_type: str, rng: random.Random, num_rooms: int) -> Errand:
    """Rooms, object, destination and source, each evenly among what the ones before leave open."""
    errands = _errands(task_type, num_rooms)
    for i in range(len(Errand._fields)):
        value = rng.choice(sorted({errand[i] or "" for errand in errands}))
        errands = tuple(errand for errand in errands if (errand[i] or "") == value)
    return errands[0]


@cache
def _errands(task_type: str, num_rooms: int) -> tuple[Errand, ...]:
    """Every errand that makes sense for a task type, in every choice of rooms."""
    condition = CONDITION_OF_TASK.get(task_type)
    errands = []
    for rooms in combinations(ROOMS, num_rooms):
        furniture, objects = _stock(rooms), _objects(rooms)
        hosts: list[str | None] = [None]
        if task_type == "look_at_obj_in_light":
            hosts = [place for place in furniture if LAMP in FITS[place] and LAMP in objects]
        if condition is not None:
            hosts = [place for place in furniture if place in APPLIANCES[condition][1]]
        for thing in objects:
            if thing in FIXED or (condition is not None and thing not in ABLE[CONDITIONS[condition]]):
                continue
            sources = [place for place in furniture if thing in FITS[place]]
            ends = [None] if task_type == "look_at_obj_in_light" else sources
            errands += [
                Errand(rooms, thing, end, source, host)
                for host in hosts
                for end in ends
                for source in sources
                if end != source and (end is None or end != host)
            ]
    return tuple(errands)


def _stock(rooms: Sequence[str]) -> Counter[str]:
    """Receptacle types, with the most there may be of each."""
    return sum((Counter(ROOMS[room]) for room in rooms), Counter())


@cache
def _objects(rooms: tuple[str, ...]) -> tuple[str, ...]:
    """Object types, sorted."""
    return tuple(sorted({thing for room in rooms for thing in ROOM_OBJECTS[room]}))


def _furnish(errand: Errand, rng: random.Random, num_receptacles: int) -> list[str]:
    """Receptacle types: what the errand needs, of several rooms one each that no other room has, two
    alike where there is space, and more."""
    stock = _stock(errand.rooms)
    places = sorted({place for place in (errand.destination, errand.source, errand.host) if place})
    for room in errand.rooms if len(errand.rooms) > 1 else ():
        own = ROOMS[room].keys() - {place for other in ROOMS if other != room for place in ROOMS[other]}
        places += [] if own & {*places} else [rng.choice(sorted(own))]
    if len(places) + 2 <= num_receptacles:
        places += [rng.choice(sorted(type for type, most in stock.items() if most > 2))] * 2
    stock -= Counter(places)
    return places + rng.sample(sorted(stock.elements()), num_receptacles - len(places))


def _place_objects(
    errand: Errand,
    things: Sequence[str],
    receptacles: Sequence[Receptacle],
    rng: random.Random,
    num_objects: int,
    may_be_wanted: bool,
) -> list[tuple[str, str, str]]:
    """(id, type, receptacle id) of each object: `things` and others, which may be of the wanted
    type, or may not."""
    options: dict[str, list[str]] = {}
    for thing in _objects(errand.rooms):
        fits = [r for r in receptacles if thing in FITS[r.type or ""]]
        if thing == errand.object_type:
            fits = [r for r in fits if r.type != errand.destination]
        if fits:
            options[thing] = [r.id for r in fits]
    others = [thing for thing in sorted(options) if may_be_wanted or thing != errand.object_type]
    things = [*things, *rng.choices(others, k=num_objects - len(things))]
    rng.shuffle(things)
    return [(id, thing, rng.choice(options[thing])) for id, thing in _numbered(things)]


def _numbered(types: Sequence[str]) -> list[tuple[str, str]]:
    """(id, type): ids are numbered within each type, from 1, in two digits."""
    seen: Counter[str] = Counter()
    pairs = []
    for type in types:
        seen[type] += 1
        id = f"{WHOLES.get(type, type)}_bar_{seen[type]:02d}"
        pairs.append((f"{id}_bar_{type}" if type in WHOLES else id, type))
    return pairs
