"""Shortest plans against a plain breadth-first search over whole states."""

from __future__ import annotations

import dataclasses
import random
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from odd_houses import odd_house

from gagpo.config import WorldConfig
from gagpo.envs import planner, shortest
from gagpo.envs.base import make_world
from gagpo.envs.game import Game
from gagpo.envs.houses import generate
from gagpo.envs.pddl import read_problem
from gagpo.envs.problem import TASK_TYPES, Problem
from gagpo.envs.rules import Rules, State

MOST_STATES = 6000


def breadth_first(rules: Rules, start: State) -> int | None:
    """Length of a shortest plan, every command tried; None where no state that can be reached wins.

    Raises MemoryError where there are too many states to look at."""
    frontier, seen, depth = {start}, {start}, 0
    while frontier:
        if any(rules.won(state) for state in frontier):
            return depth
        frontier = {rules.apply(s, a) for s in frontier for a in rules.actions(s).values()} - seen
        seen |= frontier
        depth += 1
        if len(seen) > MOST_STATES:
            raise MemoryError
    return None


def wandered(rules: Rules, rng: random.Random, num_steps: int) -> State:
    """A state that random commands lead to; those that change something are tried more often."""
    state = rules.start
    for _ in range(num_steps):
        actions = rules.actions(state)
        weights = [1 if c.split()[0] in ("look", "help", "inventory", "examine") else 6 for c in actions]
        [action] = rng.choices(list(actions.values()), weights)
        state = rules.apply(state, action)
    return state


def follow(rules: Rules, state: State, plan: list[str]) -> State:
    for command in plan:
        assert not rules.won(state)
        state = rules.apply(state, rules.actions(state)[command])
    return state


def assert_exact(rules: Rules, state: State) -> None:
    try:
        expected = breadth_first(rules, state)
    except MemoryError:
        assume(False)
    plan, fast = shortest.shortest_plan(rules, state), planner.plan(rules, state)
    assert shortest.distance(rules, state) == expected
    if expected is None:
        assert plan is None and fast is None
        return
    assert len(plan) == expected and rules.won(follow(rules, state, plan))
    least = shortest._estimate(rules, state, shortest._Effort(rules))
    assert least is not None and least <= expected


def small(problem: Problem, keep: int, rng: random.Random) -> Problem:
    """The problem with fewer objects, so that all its states can be looked at."""
    goal = problem.goal
    wanted = [o for o in problem.objects if o.type in (goal.object_type, goal.lamp_type)]
    others = [o for o in problem.objects if o not in wanted]
    objects = tuple(wanted[: max(keep, 2)] + rng.sample(others, min(len(others), max(0, keep - len(wanted)))))
    ids = {o.id for o in objects}
    return dataclasses.replace(
        problem,
        objects=objects,
        inside=frozenset(pair for pair in problem.inside if pair[0] in ids),
        nearby=frozenset(pair for pair in problem.nearby if pair[0] in ids),
        conditions=frozenset(pair for pair in problem.conditions if pair[1] in ids),
        contents=frozenset(),
    )


@pytest.mark.parametrize("task_type", TASK_TYPES)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31 - 1), num_steps=st.integers(0, 25))
def test_distances_in_generated_houses_are_exact_from_any_state(task_type, seed, num_steps):
    rules = Rules(generate(task_type, random.Random(seed), 4, 2 + seed % 2))
    assert_exact(rules, wandered(rules, random.Random(seed), num_steps))


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**31 - 1), num_steps=st.integers(0, 25))
def test_distances_in_odd_houses_are_exact_from_any_state(seed, num_steps):
    rng = random.Random(seed)
    rules = Rules(small(odd_house(seed, 4, 3), 3, rng))
    assert_exact(rules, wandered(rules, rng, num_steps))


@pytest.mark.parametrize(("num_receptacles", "num_objects"), [(8, 6), (20, 30)])
def test_one_command_changes_the_distance_by_one_at_most_downwards(num_receptacles, num_objects):
    """In houses too large to search, distances still are what a best command leaves, and one more."""
    num_checked = 0
    for seed in range(18):
        rng = random.Random(seed)
        rules = Rules(generate(TASK_TYPES[seed % 6], rng, num_receptacles, num_objects))
        state = wandered(rules, rng, rng.randrange(60))
        here = shortest.distance(rules, state)
        if here:
            after = {shortest.distance(rules, rules.apply(state, a)) for a in rules.actions(state).values()}
            assert min(after) == here - 1
            num_checked += 1
    assert num_checked >= 15


def test_distances_of_official_games(shared_dir):
    path = shared_dir / "data" / "alfworld" / "valid_seen.json.xz"
    world = make_world(WorldConfig(env="alfworld", games=str(path)))
    for task_id in sorted(world._games)[::10]:
        env = world.make(task_id)
        rules = env._rules
        assert env.distance() == len(env.shortest_plan()) == len(env.plan())
        after = [shortest.distance(rules, rules.apply(rules.start, a)) for a in env._actions.values()]
        assert min(after) == env.distance() - 1


# An untreated apple is in hand; a hot one lies on the countertop, which stands where the open fridge is.
TWO_APPLES = """(define (problem p) (:domain alfred) (:objects) (:init
    (receptacleType CounterTop_bar_1 CounterTopType) (receptacleAtLocation CounterTop_bar_1 loc_bar_1)
    (receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_1)
    (openable Fridge_bar_1) (opened Fridge_bar_1)
    (receptacleType Microwave_bar_1 MicrowaveType) (receptacleAtLocation Microwave_bar_1 loc_bar_2)
    (canContain CounterTopType AppleType) (canContain FridgeType AppleType)
    (objectType Apple_bar_1 AppleType) (objectType Apple_bar_2 AppleType)
    (pickupable Apple_bar_1) (pickupable Apple_bar_2) (heatable Apple_bar_1) (heatable Apple_bar_2)
    (inReceptacle Apple_bar_1 CounterTop_bar_1) (inReceptacle Apple_bar_2 CounterTop_bar_1)
    (isHot Apple_bar_1) (atLocation agent1 loc_bar_1))
  (:goal (exists (?r - receptacle) (exists (?o - object) (and (heatable ?o) (objectType ?o AppleType)
    (receptacleType ?r FridgeType) (isHot ?o) (inReceptacle ?o ?r))))))"""


def test_putting_down_what_could_be_used_is_shorter_by_hand():
    env = Game(Rules(read_problem(TWO_APPLES, "x.")), "x", max_steps=50, success_reward=1.0)
    assert env.distance() == 2
    env.step("take apple 1 from countertop 1")  # the second id is number 1, and not hot
    assert env.plan() == [
        "go to microwave 1",
        "heat apple 1 with microwave 1",
        "go to fridge 1",
        "move apple 1 to fridge 1",
    ]
    plan = env.shortest_plan()
    assert plan[1:] == ["take apple 2 from countertop 1", "move apple 2 to fridge 1"]
    assert plan[0] in ("move apple 1 to countertop 1", "move apple 1 to fridge 1")
    assert env.distance() == 3 == breadth_first(env._rules, env.snapshot()[0])
    for left in (2, 1, 0):
        env.step(plan[2 - left])
        assert env.distance() == left
    assert env.shortest_plan() == []


def test_a_search_that_takes_too_long_is_given_up_with_a_word(monkeypatch):
    env = Game(Rules(read_problem(TWO_APPLES, "x.")), "x", max_steps=50, success_reward=1.0)
    env.step("take apple 1 from countertop 1")
    monkeypatch.setattr(shortest, "MAX_WAYS", 12)
    with pytest.raises(ValueError, match=r"state: .* given up after 12 ways to the goal; `plan` gives"):
        env.distance()
    assert len(env.plan()) == 4
    monkeypatch.setattr(shortest, "MAX_WAYS", 50)
    assert env.distance() == 3


def hostile(goal: str, num_beds: int, num_shelves: int, num_books: int, num_lamps: int, each: int) -> Rules:
    """As many receptacles and objects as a problem may have; `each` object is on that many shelves."""
    places = [f"{'bed' if i < num_beds else 'shelf'}_bar_{i}" for i in range(num_beds + num_shelves)]
    facts = ["(atLocation a loc0)", *(f"(canContain {r}Type BookType)" for r in ("Bed", "Shelf"))]
    for i, r in enumerate(places):
        facts += [f"(receptacleType {r} {r.partition('_')[0]}Type)", f"(receptacleAtLocation {r} loc{i})"]
        facts += [f"(openable {r})"]
    rng = random.Random(0)
    for i in range(num_books + num_lamps):
        o, type = f"thing_bar_{i}", "BookType" if i < num_books else "LampType"
        facts += [f"(objectType {o} {type})", f"(heatable {o})"]
        facts += [f"(pickupable {o})"] if each else []
        facts += [f"(toggleable {o})"] if i >= num_books else []
        facts += [f"(inReceptacle {o} {r})" for r in rng.sample(places[num_beds:], each)]
    return Rules(
        read_problem(f"(define (problem p) (:domain alfred) (:init {' '.join(facts)}) {goal})", "x.")
    )


TWO_BOOKS = """(:goal (exists (?r - receptacle) (and (receptacleType ?r BedType) (exists (?o - object) (and
    (inReceptacle ?o ?r) (objectType ?o BookType) (exists (?p - object) (and (inReceptacle ?p ?r)
    (objectType ?p BookType) (not (= ?o ?p)))))))))"""
HOT_BOOK = """(:goal (exists (?r - receptacle) (exists (?o - object) (and (heatable ?o) (isHot ?o)
    (inReceptacle ?o ?r) (objectType ?o BookType) (receptacleType ?r BedType)))))"""
BOOK_IN_LIGHT = """(:goal (and (exists (?t - object ?r - receptacle ?a - agent ?l - location) (and
    (objectType ?t LampType) (toggleable ?t) (isToggled ?t) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)
    (inReceptacle ?t ?r))) (exists (?o - object ?a - agent) (and (objectType ?o BookType) (holds ?a ?o)))))"""


@pytest.mark.parametrize(
    ("goal", "sizes", "length"),
    [
        (TWO_BOOKS, (100, 150, 240, 0, 1), 10),
        (TWO_BOOKS, (80, 170, 240, 0, 60), 10),
        (TWO_BOOKS, (200, 50, 240, 0, 0), None),  # 57,360 pairs of books that cannot be had, for each bed
        (HOT_BOOK, (200, 50, 240, 0, 1), None),  # no microwave
        (BOOK_IN_LIGHT, (10, 200, 150, 130, 60), 4),
    ],
)
def test_problems_made_to_take_forever_take_seconds(goal, sizes, length):
    rules = hostile(goal, *sizes)
    start = time.process_time()
    plan = planner.plan(rules, rules.start)
    assert (plan and len(plan)) == length
    try:
        assert shortest.distance(rules, rules.start) == length
    except ValueError as error:
        assert "given up" in str(error) and length is not None
    assert time.process_time() - start < 20  # two to four, where nothing else runs; without bounds, hours
