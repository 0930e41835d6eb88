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

# What one search may look at, in ways to the goal: about two seconds. Of generated houses with 40
# receptacles and 60 objects, none was seen to take a hundredth of it.
MAX_WAYS = 200_000
NOTHING: frozenset = frozenset()


def distance(rules: Rules, state: State) -> int | None:
    """How many commands a shortest plan from `state` has; None where the goal is out of reach."""
    plan = shortest_plan(rules, state)
    return None if plan is None else len(plan)


def shortest_plan(rules: Rules, state: State) -> list[str] | None:
    """A plan with the fewest commands: [] when the goal holds, None when it cannot be reached.

    Raises ValueError where the search has looked at MAX_WAYS ways to the goal, a few seconds' work,
    and has not settled it: there may be a plan that is shorter than `planner.plan`'s, or none.
    """
    known = planner.plan(rules, state)
    effort = _Effort(rules)
    least = _estimate(rules, state, effort)
    if least is None or (known is not None and len(known) == least):
        return known
    bound = None if known is None else len(known)
    return _search(rules, _relevant(rules, state), bound, effort) or known


class _Effort:
    """Counts what a search looks at. The unit is a way; a pair of things that could make one counts
    too, as a problem can have many that make none."""

    def __init__(self, rules: Rules) -> None:
        self.pairs = 1 + len(rules.goal_objects) * len(rules.goal_receptacles | rules.goal_lamps)
        self.spent = 0

    def shortest(self, rules: Rules, state: State, ways: Iterator[planner.Way]) -> list[int]:
        """The length of the shortest of these ways, in a list; an empty one where there is none."""
        self._spend(self.pairs)
        best: int | None = None
        for way in ways:
            self._spend(1)
            length = len(planner.route(rules, state, way))
            best = length if best is None else min(best, length)
        return [] if best is None else [best]

    def _spend(self, num: int) -> None:
        self.spent += num
        if self.spent > MAX_WAYS:
            raise ValueError(
                f"state: the search for a shortest plan was given up after {MAX_WAYS} ways to the goal; "
                "`plan` gives a short one"
            )


def _search(rules: Rules, start: State, bound: int | None, effort: _Effort) -> list[str] | None:
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
            left = _estimate(rules, after, effort)
            if left is None or (bound is not None and taken + 1 + left >= bound):
                continue
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


def _estimate(rules: Rules, state: State, effort: _Effort) -> int | None:
    """At most as many commands as the goal still takes; None where it cannot be reached."""
    if rules.won(state):
        return 0
    found = effort.shortest(rules, state, planner.errands(rules, state))
    if state.held is not None and any(rules.place_of[r] >= 0 for r in rules.fits[state.held]):
        emptied = state._replace(held=None)
        errands = planner.errands(rules, emptied)
        found += [1 + left for left in effort.shortest(rules, state, errands)]
        if state.held in rules.goal_lamps:  # it may come to stand wherever it suits
            use = state.held not in state.toggled
            fetching = _fetching(rules, emptied)
            found += [1 + use + left for left in effort.shortest(rules, state, fetching)]
    return min(found, default=None)


def _fetching(rules: Rules, state: State) -> Iterator[planner.Way]:
    for o in rules.goal_objects - {state.held}:
        yield from planner.fetches(rules, state, o)
