"""The rules of a household: which commands a state admits, what they change, when the goal holds.

They are those of ALFWorld 0.4.2's planning domain, oddities included: a command is admissible
exactly where the domain's action is applicable. States are immutable and hold small integers:
positions in the sorted lists of receptacles, objects and locations.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import NamedTuple

from gagpo.envs.problem import APPLIANCES, CONDITIONS, Problem

KNIVES = ("knife", "butterknife")


class State(NamedTuple):
    """All that can change. What the domain records and never asks for is left out
    (checked, isOn, the cost), since no text, command or goal depends on it.

    `inside` holds pairs (object, receptacle) and `nearby` pairs (object, location). Both are
    needed, and an object may keep a pair while it is held: PDDL deletes only the pair that an
    action names. `removed` holds the pairs that an action has taken out of `inside`: ALFWorld's
    `look` asks for explicit negations, and only actions make those.
    """

    location: int
    held: int | None
    opened: frozenset[int]
    inside: frozenset[tuple[int, int]]
    removed: frozenset[tuple[int, int]]
    nearby: frozenset[tuple[int, int]]
    clean: frozenset[int]
    hot: frozenset[int]
    cool: frozenset[int]
    toggled: frozenset[int]
    sliced: frozenset[int]

    def key(self) -> str:
        """32 hexadecimal digits, the same for equal states in every process."""
        plain = (self.location, self.held, *(sorted(part) for part in self[2:]))
        return blake2b(repr(plain).encode(), digest_size=16).hexdigest()


class Action(NamedTuple):
    """What a command means: a verb, and the object and receptacle it names, where it names them."""

    verb: str
    object: int = -1
    receptacle: int = -1


class Rules:
    """The fixed side of one problem, indexed for speed. Shared by all its games; never changed."""

    def __init__(self, problem: Problem) -> None:
        names = dict(problem.names)
        receptacles = sorted(problem.receptacles, key=lambda r: r.id)
        objects = sorted(problem.objects, key=lambda o: o.id)
        places = {problem.start, *(place for _, place in problem.nearby)}
        places |= {r.location for r in receptacles if r.location}
        self.problem = problem
        self.receptacle_index = {r.id: i for i, r in enumerate(receptacles)}
        self.object_index = {o.id: i for i, o in enumerate(objects)}
        self.place_index = {place: i for i, place in enumerate(sorted(places))}
        self.receptacle_names = [names.get(r.id, r.id) for r in receptacles]
        self.object_names = [names.get(o.id, o.id) for o in objects]
        self.receptacle_types = [r.type for r in receptacles]
        self.object_types = [o.type for o in objects]
        self.openable = frozenset(i for i, r in enumerate(receptacles) if r.openable)
        # -1 is nowhere: no agent is ever there
        self.place_of = [self.place_index.get(r.location or "", -1) for r in receptacles]
        self.able = {
            ability: frozenset(i for i, o in enumerate(objects) if ability in o.abilities)
            for ability in (
                "pickupable",
                "toggleable",
                "sliceable",
                "isreceptacleobject",
                *CONDITIONS.values(),
            )
        }
        self.knives = frozenset(i for i, o in enumerate(objects) if o.type in KNIVES)
        fits_of_type = {
            type: frozenset(j for j, r in enumerate(receptacles) if (r.type, type) in problem.can_contain)
            for type in {o.type for o in objects}
        }
        self.fits = [fits_of_type[o.type] for o in objects]
        self.contents: list[list[int]] = [[] for _ in objects]
        for inner, outer in sorted(problem.contents):
            if inner != outer:
                self.contents[self.object_index[outer]].append(self.object_index[inner])
        self._index_places()
        self._index_goal()
        self.start = self._start()

    def _index_places(self) -> None:
        """Receptacles by location, the "go to" commands of each, and the appliances."""
        reached = [r for r, place in enumerate(self.place_of) if place >= 0]
        self.receptacles_at: list[list[int]] = [[] for _ in self.place_index]
        for r in reached:
            self.receptacles_at[self.place_of[r]].append(r)
        go = {r: (f"go to {self.receptacle_names[r]}", Action("go", receptacle=r)) for r in reached}
        self.go_commands = {
            place: dict(go[r] for r in reached if self.place_of[r] != place)
            for place in {*self.place_of, self.place_index[self.problem.start]}  # no agent is elsewhere
        }
        self.treatments: list[list[tuple[str, frozenset[int]]]] = [
            [
                (verb, self.able[CONDITIONS[condition]])
                for condition, (verb, types) in APPLIANCES.items()
                if type in types
            ]
            for type in self.receptacle_types
        ]

    def _index_goal(self) -> None:
        goal = self.problem.goal
        suitable = range(len(self.object_types))
        if goal.condition is not None:
            suitable = sorted(self.able[CONDITIONS[goal.condition]])
        self.goal_objects = frozenset(o for o in suitable if self.object_types[o] == goal.object_type)
        self.goal_receptacles = frozenset(
            r for r, type in enumerate(self.receptacle_types) if type == goal.receptacle_type
        )
        self.goal_lamps = frozenset(
            o for o in self.able["toggleable"] if self.object_types[o] == goal.lamp_type
        )

    def _start(self) -> State:
        problem = self.problem

        def having(condition: str) -> frozenset[int]:
            return frozenset(self.object_index[o] for c, o in problem.conditions if c == condition)

        return State(
            location=self.place_index[problem.start],
            held=None,
            opened=frozenset(self.receptacle_index[r] for r in problem.opened),
            inside=frozenset((self.object_index[o], self.receptacle_index[r]) for o, r in problem.inside),
            removed=frozenset(),
            nearby=frozenset((self.object_index[o], self.place_index[p]) for o, p in problem.nearby),
            clean=having("clean"),
            hot=having("hot"),
            cool=having("cool"),
            toggled=having("toggled"),
            sliced=having("sliced"),
        )

    def is_shut(self, state: State, receptacle: int) -> bool:
        return receptacle in self.openable and receptacle not in state.opened

    def objects_in(self, state: State, receptacle: int) -> list[int]:
        return sorted(o for o, r in state.inside if r == receptacle)

    def actions(self, state: State) -> dict[str, Action]:
        """Every admissible command and its meaning, sorted by command."""
        commands = {"look": Action("look"), "inventory": Action("inventory"), "help": Action("help")}
        commands |= self.go_commands[state.location]
        here = self.receptacles_at[state.location]
        for r in here:
            name = self.receptacle_names[r]
            commands[f"examine {name}"] = Action("examine receptacle", receptacle=r)
            if r in self.openable:
                verb = "close" if r in state.opened else "open"
                commands[f"{verb} {name}"] = Action(verb, receptacle=r)
        for o, r in state.inside:
            if r not in here:
                continue
            if o in self.able["toggleable"]:  # even in a closed receptacle
                commands[f"use {self.object_names[o]}"] = Action("use", o)
            if state.held is None and o in self.able["pickupable"] and not self.is_shut(state, r):
                command = f"take {self.object_names[o]} from {self.receptacle_names[r]}"
                commands[command] = Action("take", o, r)
        if state.held is not None:
            commands |= self._with_hands(state, state.held, here)
        return dict(sorted(commands.items()))

    def _with_hands(self, state: State, held: int, here: list[int]) -> dict[str, Action]:
        """What can be done with the object that is held. The domain's clause that would let an
        object be examined where it lies has a stray comma and never holds: only held ones can."""
        name = self.object_names[held]
        commands = {f"examine {name}": Action("examine object", held)}
        for r in here:
            place = self.receptacle_names[r]
            if r in self.fits[held] and not self.is_shut(state, r):
                commands[f"move {name} to {place}"] = Action("move", held, r)
            for verb, able in self.treatments[r]:  # appliances work with their door closed
                if held in able:
                    commands[f"{verb} {name} with {place}"] = Action(verb, held, r)
        if held in self.knives:
            for o, place in state.nearby:
                if place == state.location and o in self.able["sliceable"]:
                    commands[f"slice {self.object_names[o]} with {name}"] = Action("slice", o)
        return commands

    def apply(self, state: State, action: Action) -> State:
        """The state after an admissible action."""
        verb, o, r = action
        if verb == "go":
            return state._replace(location=self.place_of[r])
        if verb == "open":
            return state._replace(opened=state.opened | {r})
        if verb == "close":
            return state._replace(opened=state.opened - {r})
        if verb == "take":
            return state._replace(
                held=o,
                inside=state.inside - {(o, r)},
                removed=state.removed | {(o, r)},
                nearby=state.nearby - {(o, state.location)},
            )
        if verb == "move":
            return state._replace(
                held=None,
                inside=state.inside | {(o, r)},
                removed=state.removed - {(o, r)},
                nearby=state.nearby | {(o, state.location)},
            )
        if verb == "clean":
            return state._replace(clean=state.clean | {o})
        if verb == "heat":
            return state._replace(hot=state.hot | {o}, cool=state.cool - {o})
        if verb == "cool":
            return state._replace(cool=state.cool | {o}, hot=state.hot - {o})
        if verb == "use":
            return state._replace(toggled=state.toggled | {o})
        if verb == "slice":
            return state._replace(sliced=state.sliced | {o})
        return state

    def won(self, state: State) -> bool:
        """Whether the goal holds."""
        goal = self.problem.goal
        if goal.lamp_type is not None:
            return state.held in self.goal_objects and any(
                o in state.toggled and o in self.goal_lamps and self.place_of[r] == state.location
                for o, r in state.inside
            )
        placed = Counter(r for o, r in state.inside if self.is_placed(state, o, r))
        return any(count >= goal.count for count in placed.values())

    def is_placed(self, state: State, o: int, r: int) -> bool:
        """Whether object o, lying in receptacle r, counts towards the goal."""
        return r in self.goal_receptacles and o in self.goal_objects and self.is_treated(state, o)

    def is_treated(self, state: State, o: int) -> bool:
        condition = self.problem.goal.condition
        return condition is None or o in getattr(state, condition)
