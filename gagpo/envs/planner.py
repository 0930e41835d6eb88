"""Plans for households: the shortest of the plain ways to do an errand.

A way is a list of stops (what to do at which receptacle); `route` turns it into commands. The
shortest route of all ways that could be best is the plan. What it misses is rare: it uses what is
held wherever it can, though something nearer may be better. `gagpo.envs.shortest` is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from gagpo.envs.problem import APPLIANCES
from gagpo.envs.rules import Rules, State


class Stop(NamedTuple):
    """One thing to do at a receptacle: take, move, use, or a treatment's verb."""

    verb: str
    object: int
    receptacle: int


Way = tuple[Stop, ...]
# Houses of 40 receptacles and 60 objects have some 700; the bound is for hostile problems.
MAX_WAYS = 20_000


def plan(rules: Rules, state: State) -> list[str] | None:
    """Commands that reach the goal from `state`: [] when it holds, None when no way is known."""
    if rules.won(state):
        return []
    routes = (route(rules, state, way) for way in islice(_ways(rules, state), MAX_WAYS))
    return min(routes, key=len, default=None)


def _ways(rules: Rules, state: State) -> Iterator[Way]:
    """The errands from here. Where none starts with what is held, it is put down first."""
    ways = list(islice(errands(rules, state), MAX_WAYS))
    yield from ways
    if ways or state.held is None:
        return
    for drop in _drops(rules, state):
        pair = (drop.object, drop.receptacle)
        emptied = state._replace(held=None, inside=state.inside | {pair})
        ways = list(islice(errands(rules, emptied), MAX_WAYS))
        if not ways and state.held not in rules.goal_objects | rules.goal_lamps:
            return  # nor is there one where it lies elsewhere
        yield from ((drop, *way) for way in ways)


def errands(rules: Rules, state: State) -> Iterator[Way]:
    """The ways to reach the goal that begin with what is held, or with nothing in hand."""
    light = rules.problem.goal.lamp_type is not None
    return _light_ways(rules, state) if light else _place_ways(rules, state)


def _drops(rules: Rules, state: State) -> list[Stop]:
    """Where to put down what is held: here, where something is to be fetched, or at one other
    place, which had better not be shut."""
    assert state.held is not None
    fits = [r for r in sorted(rules.fits[state.held]) if rules.place_of[r] >= 0]
    sources = {rules.place_of[r] for o, r in state.inside if o in rules.goal_objects | rules.goal_lamps}
    near = [r for r in fits if rules.place_of[r] in sources | {state.location}]
    far = sorted(set(fits) - set(near), key=lambda r: (rules.is_shut(state, r), r))
    return [Stop("move", state.held, r) for r in near + far[:1]]


def fetches(rules: Rules, state: State, o: int) -> list[Way]:
    """The ways to have object o in hand: none to go if it is held, else a stop where it lies."""
    if state.held is not None:
        return [()] if state.held == o else []
    if o not in rules.able["pickupable"]:
        return []
    return [(Stop("take", o, r),) for r in _lies_in(state.inside).get(o, ()) if rules.place_of[r] >= 0]


@lru_cache(maxsize=64)
def _lies_in(inside: frozenset[tuple[int, int]]) -> dict[int, list[int]]:
    """Object -> the receptacles that it is in, in order."""
    found = defaultdict(list)
    for o, r in sorted(inside):
        found[o].append(r)
    return dict(found)


def _light_ways(rules: Rules, state: State) -> Iterator[Way]:
    lit = ((o, r) for o, r in sorted(state.inside) if o in rules.goal_lamps)
    lamps = [Stop("use", o, r) for o, r in lit if rules.place_of[r] >= 0]
    for o in sorted(rules.goal_objects):
        for fetch in fetches(rules, state, o):
            for lamp in lamps:
                if Stop("take", lamp.object, lamp.receptacle) not in fetch:
                    yield (*fetch, lamp)


def _place_ways(rules: Rules, state: State) -> Iterator[Way]:
    goal = rules.problem.goal
    for r in sorted(rules.goal_receptacles):
        if rules.place_of[r] < 0:
            continue
        movable = [
            o
            for o in sorted(rules.goal_objects)
            if r in rules.fits[o] and not ((o, r) in state.inside and rules.is_treated(state, o))
        ]
        missing = goal.count - sum(rules.is_placed(state, o, r) for o, in_r in state.inside if in_r == r)
        if missing == 1:
            for o in movable:
                yield from _deliveries(rules, state, o, r)
        else:
            yield from _two_deliveries(rules, state, movable, r)


def _two_deliveries(rules: Rules, state: State, movable: list[int], r: int) -> Iterator[Way]:
    """Any two of the objects into r, in either order. Objects without a way are left out at once:
    a hostile problem may have thousands of pairs of them."""
    emptied = state._replace(held=None)
    firsts, seconds = (
        {o: ways for o in movable if (ways := list(_deliveries(rules, before, o, r)))}
        for before in (state, emptied)
    )
    for first in firsts:
        for second in seconds:
            if first != second:
                yield from (way + then for way in firsts[first] for then in seconds[second])


def _deliveries(rules: Rules, state: State, o: int, r: int) -> Iterator[Way]:
    """Fetch object o, treat it if the goal asks for it, and put it into r. An object that lies in
    r and elsewhere too stays in r while it is taken from there, and need not be put."""
    treatments: list[Way] = [()]
    if not rules.is_treated(state, o):
        verb, types = APPLIANCES[rules.problem.goal.condition or ""]
        treatments = [
            (Stop(verb, o, appliance),)
            for appliance, type in enumerate(rules.receptacle_types)
            if type in types and rules.place_of[appliance] >= 0
        ]
    for fetch in fetches(rules, state, o):
        stays = (o, r) in state.inside and r not in (stop.receptacle for stop in fetch)
        put = () if stays else (Stop("move", o, r),)
        for treatment in treatments:
            yield (*fetch, *treatment, *put)


def route(rules: Rules, state: State, way: Way) -> list[str]:
    """The commands for a way: go where each stop is, open what is shut and has to be open."""
    commands = []
    location, opened = state.location, set(state.opened)
    for verb, o, r in way:
        thing, name = rules.object_names[o], rules.receptacle_names[r]
        if rules.place_of[r] != location:
            location = rules.place_of[r]
            commands.append(f"go to {name}")
        if verb in ("take", "move") and r in rules.openable and r not in opened:
            opened.add(r)
            commands.append(f"open {name}")
        if verb == "take":
            commands.append(f"take {thing} from {name}")
        elif verb == "move":
            commands.append(f"move {thing} to {name}")
        elif verb != "use":
            commands.append(f"{verb} {thing} with {name}")
        elif o not in state.toggled:
            commands.append(f"use {thing}")
    return commands
