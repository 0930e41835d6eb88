"""Shortest plans and exact distances to the goal, from any state: A* over what a goal can depend on.

`planner.plan` is fast and nearly always as short as can be; here the last cases are settled. The
search keeps only the objects that the goal is about and what is held, and leaves out commands that
cannot be part of a shortest plan: those that change nothing, closing, treating what need not be,
and going or opening where nothing can be fetched, used or put down.

The estimate of what is left is the shortest route of the planner's ways, as if what is in the way
in the agent's hand could be put down by one command wherever it stands. It is never too long, so
the first plan that A* completes is a shortest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from gagpo.envs import planner
from gagpo.envs.problem import APPLIANCES
from gagpo.envs.rules import Action, Rules, State

MAX_STATES = 200_000
NOTHING: frozenset = frozenset()


def distance(rules: Rules, state: State) -> int | None:
    """How many commands a shortest plan from `state` has; None where the goal is out of reach."""
    plan = shortest_plan(rules, state)
    return None if plan is None else len(plan)


def shortest_plan(rules: Rules, state: State) -> list[str] | None:
    """A plan with the fewest commands: [] when the goal holds, None when it cannot be reached.

    Raises ValueError where more than MAX_STATES states would have to be looked at: a problem of
    that kind was made for it.
    """
    known = planner.plan(rules, state)
    least = _estimate(rules, state)
    if least is None or (known is not None and len(known) == least):
        return known
    return _search(rules, _relevant(rules, state), None if known is None else len(known)) or known


def _search(rules: Rules, start: State, bound: int | None) -> list[str] | None:
    """A plan with fewer commands than `bound`, where there is one."""
    number = count()  # so that the heap never compares states
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    steps = {start: 0}
    heap = [(0, 0, next(number), start, False)]
    while heap:
        _, minus_taken, _, state, has_gone = heappop(heap)
        taken = -minus_taken
        if taken > steps[state]:
            continue
        if rules.won(state):
            return _commands(came_from, state)
        for command, action in _useful(rules, state, has_gone):
            after = _relevant(rules, rules.apply(state, action))
            if taken + 1 >= steps.get(after, taken + 2):
                continue
            left = _estimate(rules, after)
            if left is None or (bound is not None and taken + 1 + left >= bound):
                continue
            if len(steps) >= MAX_STATES:
                raise ValueError(f"state: no shortest plan among {MAX_STATES} states that were looked at")
            steps[after], came_from[after] = taken + 1, (state, command)
            entry = (taken + 1 + left, -taken - 1, next(number), after, action.verb == "go")
            heappush(heap, entry)
    return None


def _commands(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    commands = []
    while (step := came_from[state]) is not None:
        state, command = step
        commands.append(command)
    return commands[::-1]


def _relevant(rules: Rules, state: State) -> State:
    """The state without what no goal and no shortest plan depends on."""
    objects = rules.goal_objects | rules.goal_lamps
    condition = rules.problem.goal.condition
    return state._replace(
        inside=frozenset(pair for pair in state.inside if pair[0] in objects or pair[0] == state.held),
        removed=NOTHING,
        nearby=NOTHING,
        sliced=NOTHING,
        toggled=state.toggled & rules.goal_lamps,
        **{
            name: getattr(state, name) & objects if name == condition else NOTHING
            for name in ("clean", "hot", "cool")
        },
    )


def _useful(rules: Rules, state: State, has_gone: bool) -> Iterator[tuple[str, Action]]:
    """The commands that a shortest plan can have here. It never goes twice in a row."""
    held = state.held
    condition = rules.problem.goal.condition
    treatment, appliances = APPLIANCES[condition] if condition else ("", ())
    targets = {r for _, r in state.inside}  # where something can be taken or used
    if held is not None:
        targets |= rules.fits[held]
    openings = set(targets)
    if held in rules.goal_objects and not rules.is_treated(state, held):
        targets |= {r for r, type in enumerate(rules.receptacle_types) if type in appliances}
    places = {rules.place_of[r] for r in targets}
    gone = set()
    for command, action in rules.actions(state).items():
        verb, o, r = action
        if verb == "go":
            place = rules.place_of[r]
            if has_gone or place in gone or place not in places:
                continue
            gone.add(place)
        elif verb == "open":
            if r not in openings:
                continue
        elif verb == "use":
            if o not in rules.goal_lamps or o in state.toggled:
                continue
        elif verb not in ("take", "move", treatment):
            continue
        yield command, action


def _estimate(rules: Rules, state: State) -> int | None:
    """At most as many commands as the goal still takes; None where it cannot be reached."""
    if rules.won(state):
        return 0
    found = [len(planner.route(rules, state, way)) for way in planner.errands(rules, state)]
    if state.held is not None and any(rules.place_of[r] >= 0 for r in rules.fits[state.held]):
        emptied = state._replace(held=None)
        found += [1 + len(planner.route(rules, state, way)) for way in planner.errands(rules, emptied)]
        if state.held in rules.goal_lamps:  # it may come to stand wherever it suits
            use = state.held not in state.toggled
            found += [1 + use + len(planner.route(rules, state, way)) for way in _fetching(rules, emptied)]
    return min(found, default=None)


def _fetching(rules: Rules, state: State) -> Iterator[planner.Way]:
    for o in rules.goal_objects - {state.held}:
        yield from planner.fetches(rules, state, o)
