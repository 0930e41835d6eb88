"""Generated houses: all task types, splits that share no house, plans that are as short as can be."""

from __future__ import annotations

import pickle
import random
import re
from collections import Counter
from hashlib import blake2b

import numpy as np
import pytest

from gagpo.config import WorldConfig
from gagpo.envs.base import SPLITS, Env, make_world
from gagpo.envs.game import Game
from gagpo.envs.household import split_of
from gagpo.envs.houses import generate
from gagpo.envs.problem import TASK_TYPES, Problem
from gagpo.envs.rooms import FITS, ROOM_OBJECTS, ROOMS
from gagpo.envs.rules import Rules

DIALS = [(4, 2), (8, 6), (12, 20), (40, 60)]


def problem_of(env: Game):
    return env._rules.problem


def house(task_type: str, seed: int, num_receptacles: int = 8, num_objects: int = 6) -> Game:
    problem = generate(task_type, random.Random(seed), num_receptacles, num_objects)
    return Game(Rules(problem), "test", max_steps=200, success_reward=10.0)


def wander(env: Game, rng: random.Random, num_steps: int) -> bool:
    """Random admissible commands; True where they happened to reach the goal."""
    return any(env.step(rng.choice(env.admissible()))[2] for _ in range(num_steps))


@pytest.mark.parametrize("task_type", TASK_TYPES)
@pytest.mark.parametrize(("num_receptacles", "num_objects"), DIALS)
def test_houses_have_what_the_dials_and_the_task_ask_for(task_type, num_receptacles, num_objects):
    for seed in range(40):
        problem = generate(task_type, random.Random(seed), num_receptacles, num_objects)
        assert (len(problem.receptacles), len(problem.objects)) == (num_receptacles, num_objects)
        types = Counter(r.type for r in problem.receptacles)
        assert num_receptacles < 6 or max(types.values()) > 1
        goal = problem.goal
        assert goal.task_type == task_type
        wanted = sum(o.type == goal.object_type for o in problem.objects)
        assert wanted >= goal.count == (2 if task_type == "pick_two_obj_and_place" else 1)
        needed = {
            "pick_clean_then_place_in_recep": "sinkbasin",
            "pick_heat_then_place_in_recep": "microwave",
            "pick_cool_then_place_in_recep": "fridge",
        }
        assert task_type not in needed or types[needed[task_type]] == 1 or needed[task_type] == "sinkbasin"
        assert task_type not in needed or types[needed[task_type]] >= 1
        place = {o: r for o, r in problem.inside}
        receptacle_type = {r.id: r.type for r in problem.receptacles}
        assert len(place) == num_objects
        for o in problem.objects:
            assert o.type in FITS[receptacle_type[place[o.id]]]
            assert o.type != goal.object_type or receptacle_type[place[o.id]] != goal.receptacle_type
        if task_type == "look_at_obj_in_light":
            lamps = [o for o in problem.objects if o.type == goal.lamp_type == "desklamp"]
            hosts = {receptacle_type[place[lamp.id]] for lamp in lamps}
            assert lamps and hosts <= {"desk", "sidetable", "dresser"}
            assert all("pickupable" not in lamp.abilities for lamp in lamps)
        else:
            assert types[goal.receptacle_type] >= 1 and goal.object_type in FITS[goal.receptacle_type]
        game = Game(Rules(problem), "x", max_steps=1, success_reward=1.0)
        assert game.reset()[1] == {"won": False}


@pytest.mark.parametrize("task_type", TASK_TYPES)
@pytest.mark.parametrize(("num_receptacles", "num_objects"), DIALS)
def test_the_planner_wins_from_the_start_and_after_any_wandering(task_type, num_receptacles, num_objects):
    rng = random.Random(0)
    for seed in range(25):
        env = house(task_type, seed, num_receptacles, num_objects)
        if wander(env, rng, rng.choice((0, 0, 5, 30))):
            continue
        plan = env.plan()
        for i, command in enumerate(plan):
            assert env.plan()[0] == env.expert() and len(env.plan()) == len(plan) - i
            _, reward, terminated, _, info = env.step(command)
            assert info["valid"] and terminated == (i == len(plan) - 1)
            assert reward == (10.0 if terminated else 0.0)


def shortest(env: Game) -> int:
    """Length of a shortest plan, by breadth-first search over whole states."""
    rules = env._rules
    frontier = {env.snapshot()[0]}
    seen, depth = set(frontier), 0
    while not any(rules.won(state) for state in frontier):
        frontier = {rules.apply(s, a) for s in frontier for a in rules.actions(s).values()} - seen
        seen |= frontier
        depth += 1
    return depth


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_plans_are_as_short_as_breadth_first_search_finds(task_type):
    rng = random.Random(1)
    num_compared = 0
    for seed in range(12):
        env = house(task_type, seed, 4, 2 + seed % 2)
        if wander(env, rng, seed % 3 * 6):
            continue
        plan = env.plan()
        if len(plan) <= 8:
            assert len(plan) == shortest(env)
            num_compared += 1
    assert num_compared > 6


def test_splits_share_no_house_whatever_the_seeds():
    world = make_world(WorldConfig(num_receptacles=4, num_objects=2))  # small houses, so many recur
    contents = {}
    for split in ("train", "unseen"):
        ids = world.tasks(split, 900, np.random.default_rng(0))
        problems = [problem_of(world.make(task_id)) for task_id in ids]
        assert {split_of(problem) for problem in problems} == {split}
        contents[split] = {(p.receptacles, p.objects, p.inside, p.sentence) for p in problems}
        assert len(contents[split]) < 900  # houses do recur, so that the next line says something
    assert not contents["train"] & contents["unseen"]


def test_about_one_house_in_five_is_unseen():
    houses = [generate(TASK_TYPES[i % 6], random.Random(i), 8, 6) for i in range(1200)]
    share = sum(split_of(problem) == "unseen" for problem in houses) / 1200
    assert 0.16 < share < 0.24


def test_tasks_are_distinct_drawn_from_rng_and_even_over_types():
    world = make_world(WorldConfig())
    ids = world.tasks("train", 600, np.random.default_rng(4))
    assert len(set(ids)) == 600 and ids == world.tasks("train", 600, np.random.default_rng(4))
    assert ids != world.tasks("train", 600, np.random.default_rng(5))
    assert Counter(map(world.task_type, ids)) == dict.fromkeys(TASK_TYPES, 100)
    assert set(world.tasks("train", 6, np.random.default_rng(1))).isdisjoint(ids)


def test_an_id_and_the_dials_make_the_same_house_again():
    config = WorldConfig(num_receptacles=7, num_objects=9)
    task_id = make_world(config).tasks("unseen", 1, np.random.default_rng(0))[0]
    first, again = make_world(config).make(task_id), make_world(config).make(task_id)
    assert first.reset(seed=1) == again.reset(seed=2) and first.state_key() == again.state_key()
    other = make_world(WorldConfig(num_receptacles=8, num_objects=9)).make(task_id)
    assert other.reset() != first.reset()
    # fixed text: a house must not change between versions of Python or numpy
    pinned = make_world(WorldConfig(num_receptacles=4, num_objects=3)).make(
        "household/train/pick_heat_then_place_in_recep/7"
    )
    assert pinned.reset()[0].split("\n\n")[1:] == [
        "You are in the middle of a room. Looking quickly around you, you see a countertop 2, "
        "a countertop 1, a diningtable 1, and a microwave 1.",
        "Your task is to: put a hot bread in countertop.",
    ]
    assert pinned.plan() == [
        "go to diningtable 1",
        "take bread 1 from diningtable 1",
        "go to microwave 1",
        "heat bread 1 with microwave 1",
        "go to countertop 2",
        "move bread 1 to countertop 2",
    ]


def content(problem: Problem) -> str:
    """Everything that a problem is, in an order of its own."""
    parts = (problem.receptacles, [(o.id, o.type, sorted(o.abilities)) for o in problem.objects])
    sets = (problem.can_contain, problem.inside, problem.nearby, problem.contents, problem.opened)
    rest = (problem.start, problem.goal, problem.sentence, problem.names, problem.walkthrough)
    return repr((*parts, *map(sorted, sets), sorted(problem.conditions), *rest))


def test_houses_of_the_first_version_are_generated_for_ever():
    """Hashes of 1,440 houses, made before there were other dials than the two sizes."""
    generated, named = blake2b(digest_size=16), blake2b(digest_size=16)
    for size in [*DIALS, (4, 3), (20, 30)]:
        world = make_world(WorldConfig(num_receptacles=size[0], num_objects=size[1]))
        for task_type in TASK_TYPES:
            for seed in range(20):
                generated.update(content(generate(task_type, random.Random(seed), *size)).encode())
                split = SPLITS[seed % 2]
                env = world.make(f"household/{split}/{task_type}/{seed}")
                named.update((content(problem_of(env)) + env.reset()[0] + env.state_key()).encode())
    assert generated.hexdigest() == "6217f3a92ad7db8ef5c7b1bd12ae5167"
    assert named.hexdigest() == "9cff2a670fdbfb0b211b3ceebcf52187"


def test_siblings_share_the_problem_but_no_state():
    world = make_world(WorldConfig())
    task_id = world.tasks("train", 1, np.random.default_rng(0))[0]
    one, two = world.make(task_id), world.make(task_id)
    assert one is not two and problem_of(one) is problem_of(two)
    before = two.state_key()
    one.step(one.expert())
    assert two.state_key() == before != one.state_key()
    copy = pickle.loads(pickle.dumps(one))
    assert copy.snapshot() == one.snapshot() and copy.step("look") == one.step("look")
    assert isinstance(one, Env)


def test_snapshots_restore_exactly_under_random_play():
    rng = random.Random(9)
    for seed in range(30):
        env = house(TASK_TYPES[seed % 6], seed)
        if wander(env, rng, rng.randrange(20)):
            continue
        saved = env.snapshot()
        commands, first = [], []
        while len(commands) < 15 and not (first and first[-1][0][2]):
            commands.append(rng.choice(env.admissible()))
            first.append((env.step(commands[-1]), env.state_key(), env.admissible(), env.expert()))
        fresh = house(TASK_TYPES[seed % 6], seed)
        fresh.restore(pickle.loads(pickle.dumps(saved)))
        assert fresh.snapshot() == saved
        for command, expected in zip(commands, first, strict=True):
            assert (fresh.step(command), fresh.state_key(), fresh.admissible(), fresh.expert()) == expected


def test_words_cover_all_text_of_random_play():
    world = make_world(WorldConfig(num_receptacles=20, num_objects=40))
    known = world.words()
    rng = random.Random(2)
    said: set[str] = set()
    for task_id in world.tasks("train", 60, np.random.default_rng(3)):
        env = world.make(task_id)
        texts = [env.reset()[0], env.goal]
        for _ in range(29):
            command = rng.choice([*env.admissible(), env.expert(), "put mug 1 in/on desk 1"])
            observation, _, terminated, _, _ = env.step(command)
            texts += [observation, command, *env.admissible()]
            if terminated:
                break
        said |= {token for text in texts for token in re.findall(r"\w+|[^\w\s]", text.lower())}
    assert said <= known and len(said) > 150
    assert all(word == word.lower() for word in known) and len(known) < 400


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_can_be_furnished_to_the_highest_dial(room):
    assert sum(ROOMS[room].values()) >= 40 and set(ROOMS[room]) <= set(FITS)
    for thing in ROOM_OBJECTS[room]:
        assert any(thing in FITS[place] for place in ROOMS[room]), thing


def test_task_types_can_be_chosen():
    world = make_world(WorldConfig(task_types=("pick_two_obj_and_place", "pick_and_place_simple")))
    ids = world.tasks("train", 10, np.random.default_rng(0))
    assert Counter(map(world.task_type, ids)) == {"pick_two_obj_and_place": 5, "pick_and_place_simple": 5}
    with pytest.raises(
        ValueError, match="task type 'look_at_obj_in_light'; expected one of pick_and_place_simple"
    ):
        world.make("household/train/look_at_obj_in_light/3")


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"task_types: 'pick_heat'; .* did you mean 'pick_heat_then_place_in_recep'"
    ):
        make_world(WorldConfig(task_types=("pick_heat",)))
    with pytest.raises(ValueError, match="split: 'test'; expected one of train, unseen"):
        make_world(WorldConfig()).tasks("test", 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    "task_id",
    [
        "",
        "household/train/pick_and_place_simple",
        "household/valid/pick_and_place_simple/3",
        "household/train/pick_and_place/3",
        "household/train/pick_and_place_simple/-3",
        "household/train/pick_and_place_simple/3.0",
        "household/train/pick_and_place_simple/03",
        "household/train/pick_and_place_simple/٣",
        "household/train/pick_and_place_simple/99999999999999999999",
        "household/train/pick_and_place_simple/3/4",
        "alfworld/train/pick_and_place_simple/3",
    ],
)
def test_ids_of_other_worlds_are_refused(task_id):
    with pytest.raises(ValueError, match=r"task_id|split"):
        make_world(WorldConfig()).make(task_id)
