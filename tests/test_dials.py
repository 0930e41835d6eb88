"""The dials of generated houses: each does what it says, alone and beside the others."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo.config import WorldConfig
from gagpo.envs import household
from gagpo.envs.base import SPLITS, make_world
from gagpo.envs.check import check_world
from gagpo.envs.export import problem_text
from gagpo.envs.game import Game
from gagpo.envs.household import split_of
from gagpo.envs.houses import generate
from gagpo.envs.pddl import read_problem
from gagpo.envs.problem import TASK_TYPES, Problem
from gagpo.envs.rooms import FITS, ROOM_OBJECTS, ROOMS
from gagpo.envs.rules import Rules

SLOW = settings(deadline=None, max_examples=80)
TWO, LAMP = "pick_two_obj_and_place", "look_at_obj_in_light"
# (receptacles, objects, rooms)
SIZES = [(4, 3, 1), (7, 9, 4), (8, 6, 2), (40, 60, 1), (80, 20, 2), (120, 40, 3), (160, 60, 4)]
sizes = st.sampled_from(SIZES)
seeds = st.integers(0, 2**31 - 1)
types = st.sampled_from(TASK_TYPES)


def house(task_type: str, seed: int, size: tuple[int, int, int], num_spares: int | None = None) -> Problem:
    rng = random.Random(seed)
    return generate(task_type, rng, *size[:2], num_rooms=size[2], num_spares=num_spares)


def playable(problem: Problem) -> Game:
    return Game(Rules(problem), "x", max_steps=1000, success_reward=1.0)


def wanted(problem: Problem) -> list[str]:
    return [o.id for o in problem.objects if o.type == problem.goal.object_type]


def without(problem: Problem, ids: set[str]) -> Problem:
    """The house without these objects."""
    return dataclasses.replace(
        problem,
        objects=tuple(o for o in problem.objects if o.id not in ids),
        inside=frozenset(pair for pair in problem.inside if pair[0] not in ids),
        nearby=frozenset(pair for pair in problem.nearby if pair[0] not in ids),
    )


def num_needed(task_type: str) -> int:
    """Objects that the task needs, the lamp included: two by hand for two of the task types."""
    return 2 if task_type in (TWO, LAMP) else 1


@SLOW
@given(types, seeds, sizes, st.data())
def test_a_house_has_as_many_spares_as_the_dial_says(task_type, seed, size, data):
    num_spares = data.draw(st.integers(0, size[1] - num_needed(task_type)))
    problem = house(task_type, seed, size, num_spares)
    count = 2 if task_type == TWO else 1
    assert len(wanted(problem)) == count + num_spares
    assert (len(problem.receptacles), len(problem.objects)) == size[:2]
    type_of = {r.id: r.type for r in problem.receptacles}
    places = dict(problem.inside)
    assert all(o.type in FITS[type_of[places[o.id]]] for o in problem.objects)
    assert all(type_of[places[o]] != problem.goal.receptacle_type for o in wanted(problem))


@SLOW
@given(types, seeds, sizes)
def test_any_of_the_spares_would_do(task_type, seed, size):
    problem = house(task_type, seed, size, min(1, size[1] - num_needed(task_type)))
    for kept in itertools.combinations(wanted(problem), problem.goal.count):
        alone = without(problem, {*wanted(problem)} - {*kept})
        game = playable(alone)
        steps = [game.step(command) for command in game.plan()]
        assert steps[-1][2] and not any(step[2] for step in steps[:-1])


def test_no_spares_leave_one_object_that_does_and_chance_leaves_more():
    size, counts = (8, 20, 1), Counter()
    for seed in range(60):
        assert len(wanted(house("pick_and_place_simple", seed, size, 0))) == 1
        counts[len(wanted(house("pick_and_place_simple", seed, size)))] += 1
    assert len(counts) > 2


@SLOW
@given(types, seeds, sizes)
def test_houses_hold_what_so_many_rooms_hold(task_type, seed, size):
    problem = house(task_type, seed, size)
    furniture = Counter(r.type for r in problem.receptacles)
    objects = {o.type for o in problem.objects}

    def holds(rooms: tuple[str, ...]) -> bool:
        stock = sum((Counter(ROOMS[room]) for room in rooms), Counter())
        return furniture <= stock and objects <= {thing for room in rooms for thing in ROOM_OBJECTS[room]}

    assert any(holds(rooms) for rooms in itertools.combinations(ROOMS, size[2]))


@SLOW
@given(types, seeds, st.sampled_from([size for size in SIZES if size[2] > 1]))
def test_of_each_room_there_is_a_place_that_no_other_room_has(task_type, seed, size):
    furniture = {r.type for r in house(task_type, seed, size).receptacles}
    own = {
        "kitchen": {"stoveburner", "fridge", "microwave", "coffeemachine"},
        "bedroom": {"bed", "laundryhamper"},
        "bathroom": {"towelholder", "handtowelholder", "toiletpaperhanger", "bathtubbasin", "cart", "toilet"},
        "livingroom": {"coffeetable", "sofa", "ottoman"},
    }
    assert sum(bool(furniture & places) for places in own.values()) == size[2]


def test_errands_lead_from_one_room_to_another():
    """Some things lie in a place, and are wanted in one, that no room has together."""
    crosses = Counter()
    for size, seed in itertools.product([(8, 6, 1), (8, 6, 2), (8, 6, 4)], range(150)):
        problem = house("pick_and_place_simple", seed, size, num_spares=0)
        (lies,) = {r.type for r in problem.receptacles if (wanted(problem)[0], r.id) in problem.inside}
        crosses[size[2]] += not any({lies, problem.goal.receptacle_type} <= ROOMS[r].keys() for r in ROOMS)
    assert crosses[1] == 0 and crosses[2] > 0 and crosses[4] > 0


def test_in_the_largest_house_every_place_has_a_name_of_its_own():
    problem = house("pick_and_place_simple", 0, (160, 60, 4))
    names = dict(problem.names)
    assert len({names[r.id] for r in problem.receptacles}) == 160 == len({r.id for r in problem.receptacles})
    assert len({r.location for r in problem.receptacles}) == 160


@SLOW
@given(types, seeds, sizes, st.sampled_from([None, 0, 1]))
def test_houses_of_all_dials_are_solved_and_read_back_as_they_were(task_type, seed, size, num_spares):
    problem = house(task_type, seed, size, num_spares)
    again = read_problem(problem_text(problem), problem.sentence)
    assert problem_text(again) == problem_text(problem)
    assert sorted(problem.receptacles, key=lambda r: r.id) == list(again.receptacles)
    assert sorted(problem.objects, key=lambda o: o.id) == list(again.objects)
    assert (problem.inside, problem.nearby, problem.goal) == (again.inside, again.nearby, again.goal)
    first, second = playable(problem), playable(again)
    assert first.reset() == second.reset() and first.plan() == second.plan()
    for command in first.plan():
        answer = first.step(command)
        assert answer == second.step(command) and first.admissible() == second.admissible()
    assert answer[2] and answer[4]["won"]


def shortest(game: Game) -> int:
    """By breadth-first search over whole states."""
    rules = game._rules
    frontier, seen, depth = {rules.start}, {rules.start}, 0
    while not any(map(rules.won, frontier)):
        frontier = {rules.apply(s, a) for s in frontier for a in rules.actions(s).values()} - seen
        seen |= frontier
        depth += 1
    return depth


@pytest.mark.parametrize(
    ("task_type", "least", "most"),
    [
        ("pick_and_place_simple", 0, 4),
        ("pick_and_place_simple", 5, 5),
        ("pick_and_place_simple", 6, None),
        ("pick_clean_then_place_in_recep", 0, 5),
        ("pick_clean_then_place_in_recep", 6, 7),
    ],
)
def test_plans_are_as_long_as_wanted(task_type, least, most):
    """Against breadth-first search; the house is the first of the seed's sequence that will do."""
    size = {"num_receptacles": 4, "num_objects": 2}
    config = WorldConfig(task_types=(task_type,), min_plan_steps=least, max_plan_steps=most, **size)
    for split, seed in itertools.product(SPLITS, range(4)):
        made = make_world(config).make(f"household/{split}/{task_type}/{seed}")
        for attempt in itertools.count():
            problem = generate(task_type, random.Random(f"{task_type}/{seed}/{attempt}"), 4, 2)
            if split_of(problem) == split:
                num_steps = shortest(playable(problem))
                if least <= num_steps <= (most or 99):
                    break
        assert made._rules.problem == problem and made.distance() == num_steps


def test_bounds_that_every_house_meets_change_no_house():
    for task_type in TASK_TYPES:
        task_id = f"household/unseen/{task_type}/5"
        plain = make_world(WorldConfig()).make(task_id)
        bounded = make_world(WorldConfig(min_plan_steps=1, max_plan_steps=99)).make(task_id)
        assert plain._rules.problem == bounded._rules.problem
        one_room = make_world(WorldConfig(num_rooms=1, num_spares=None)).make(task_id)
        assert plain._rules is one_room._rules


def test_plans_that_no_house_has_are_refused_when_tasks_are_drawn(monkeypatch):
    monkeypatch.setattr(household, "MAX_DRAWS", 30)
    config = WorldConfig(
        min_plan_steps=20, max_plan_steps=21, task_types=("pick_heat_then_place_in_recep",), num_objects=3
    )
    message = (
        r"min_plan_steps, max_plan_steps: 20, 21; none of 30 houses of pick_heat_then_place_in_recep has "
        r"such a plan: theirs have 6 to \d steps"
    )
    with pytest.raises(ValueError, match=message):
        make_world(config).tasks("train", 1, np.random.default_rng(0))


def test_splits_share_no_house_across_dials():
    """Small houses, so that many recur, also between settings of the dials."""
    contents: dict[str, set] = {split: set() for split in SPLITS}
    recurring = 0
    dials = [{}, {"num_spares": 0}, {"num_spares": 1}, {"min_plan_steps": 5}]
    for more in dials:
        size = {"num_receptacles": 4, "num_objects": 2, "task_types": ("pick_and_place_simple",)}
        world = make_world(WorldConfig(**size, **more))
        for split in SPLITS:
            for task_id in world.tasks(split, 200, np.random.default_rng(0)):
                p = world.make(task_id)._rules.problem
                content = (p.receptacles, p.objects, p.inside, p.sentence)
                recurring += content in contents[split]
                contents[split].add(content)
    assert not contents["train"] & contents["unseen"] and recurring > 100


@pytest.mark.parametrize(
    "dials",
    [
        {"num_rooms": 3, "num_receptacles": 100, "num_objects": 50, "num_spares": 3},
        {"num_rooms": 2, "min_plan_steps": 5, "max_plan_steps": 9, "num_spares": 0},
    ],
)
def test_worlds_of_other_dials_keep_the_contract(dials: dict):
    check_world(make_world(WorldConfig(**dials)), num_tasks=3, num_steps=15)


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"num_receptacles": 41}, "num_receptacles: 41 with num_rooms 1; expected 4 to 40"),
        ({"num_receptacles": 121, "num_rooms": 3}, "num_receptacles: 121 .* expected 6 to 120"),
        ({"num_receptacles": 6, "num_rooms": 4}, "num_receptacles: 6 with num_rooms 4; expected 7 to 160"),
        ({"num_rooms": 5}, "num_rooms: 5; expected at most 4"),
        ({"num_spares": -1}, "num_spares: -1; expected at least 0"),
        (
            {"num_spares": 5, "num_objects": 6},
            "num_spares: 5; expected at most 4, for look_at_obj_in_light needs 2 of the 6 objects",
        ),
        ({"min_plan_steps": 6, "max_plan_steps": 5}, "min_plan_steps: 6; expected at most max_plan_steps, 5"),
        ({"min_plan_steps": 31}, "min_plan_steps: 31; expected at most max_steps, 30"),
    ],
)
def test_dials_that_cannot_be_are_refused(dials: dict, message: str):
    with pytest.raises(ValueError, match=message):
        make_world(WorldConfig(**dials))
