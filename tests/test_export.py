"""Exported games: read back, they are the same games; what would be evaluated is never written."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_houses import odd_house

from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.export import export_game, goal_text, problem_text
from gagpo.envs.game import Game
from gagpo.envs.houses import generate
from gagpo.envs.pddl import read_problem
from gagpo.envs.problem import TASK_TYPES, Problem
from gagpo.envs.rules import Rules

SLOW = settings(deadline=None, max_examples=60)


def playable(problem: Problem) -> Game:
    return Game(Rules(problem), "x", max_steps=10_000, success_reward=1.0)


def assert_same_play(first: Game, again: Game, rng: random.Random, num_steps: int) -> None:
    """Texts, admissible commands, state keys, plans and endings are the same, step by step."""
    assert first.reset() == again.reset() and first.goal == again.goal
    for _ in range(num_steps):
        assert first.admissible() == again.admissible() and first.state_key() == again.state_key()
        assert first.plan() == again.plan()
        command = rng.choice([*first.admissible(), "dance"])
        answer = first.step(command)
        assert answer == again.step(command)
        if answer[2]:
            return


@pytest.mark.parametrize("task_type", TASK_TYPES)
@SLOW
@given(seed=st.integers(0, 2**31 - 1), size=st.sampled_from([(4, 2), (8, 6), (20, 30)]))
def test_a_generated_house_is_read_back_as_the_same_problem(task_type, seed, size):
    problem = generate(task_type, random.Random(seed), *size)
    again = read_problem(problem_text(problem), problem.sentence)
    assert sorted(problem.receptacles, key=lambda r: r.id) == list(again.receptacles)
    assert sorted(problem.objects, key=lambda o: o.id) == list(again.objects)
    for name in ("start", "inside", "nearby", "contents", "opened", "conditions", "goal", "sentence"):
        assert getattr(problem, name) == getattr(again, name), name
    types = {r.type for r in problem.receptacles}, {o.type for o in problem.objects}
    assert again.can_contain == {(r, o) for r, o in problem.can_contain if r in types[0] and o in types[1]}
    ids = {r.id for r in problem.receptacles} | {o.id for o in problem.objects}
    assert dict(problem.names) == {id: name for id, name in again.names if id in ids}
    assert problem_text(again) == problem_text(problem)
    assert_same_play(playable(problem), playable(again), random.Random(seed), 25)


@SLOW
@given(seed=st.integers(0, 2**31 - 1))
def test_an_odd_house_is_read_back_as_the_same_problem(seed):
    problem = odd_house(seed)
    again = read_problem(problem_text(problem), problem.sentence)
    assert problem_text(again) == problem_text(problem)
    first, second = playable(problem), playable(again)
    if not first.reset()[1]["won"]:
        assert_same_play(first, second, random.Random(seed), 25)


def test_exported_folders_are_a_world_of_official_games(tmp_path):
    houses = make_world(WorldConfig())
    expected = {}
    for i, task_type in enumerate(TASK_TYPES):
        for seed in range(2):
            problem = houses.make(f"household/train/{task_type}/{seed}")._rules.problem
            split = "valid_seen" if (i + seed) % 2 else "train"
            folder = export_game(problem, tmp_path, split)
            task_id = "/".join(folder.parts[-3:])
            expected[task_id] = problem
            assert folder == export_game(problem, tmp_path, split)  # the same game, the same place
    world = make_world(
        WorldConfig(
            env="alfworld",
            games=str(tmp_path / "train"),
            unseen_games=str(tmp_path / "valid_seen"),
            max_steps=10_000,
        )
    )
    assert world.skipped.total() == 0 and len(world._games) == len(expected) == 12
    for task_id, problem in expected.items():
        assert world.task_type(task_id) == problem.goal.task_type
        env = world.make(task_id)
        assert list(env._rules.problem.walkthrough) == env.plan() == playable(problem).plan()
        assert_same_play(env, playable(problem), random.Random(0), 30)
        trial = json.loads((tmp_path / task_id / "traj_data.json").read_text())
        assert trial["task_type"] == problem.goal.task_type
        assert trial["pddl_params"]["object_target"].lower() == problem.goal.object_type
        assert trial["task_id"] == task_id.rpartition("/")[2]


def test_official_games_survive_being_written_again(shared_dir):
    path = shared_dir / "data" / "alfworld" / "valid_seen.json.xz"
    world = make_world(WorldConfig(env="alfworld", games=str(path), max_steps=10_000))
    for i, task_id in enumerate(sorted(world._games)):
        if i % 7 == 0:
            env = world.make(task_id)
            problem = env._rules.problem
            again = read_problem(problem_text(problem), problem.sentence)
            assert_same_play(env, playable(again), random.Random(i), 25)


def test_a_goal_is_written_by_hand():
    problem = generate("pick_heat_then_place_in_recep", random.Random(7), 4, 3)
    goal = dataclasses.replace(problem.goal, object_type="egg", receptacle_type="shelf")
    assert goal_text(goal) == (
        "(exists (?r - receptacle) (and (receptacleType ?r shelfType) (exists (?o - object) (and "
        "(objectType ?o eggType) (inReceptacle ?o ?r) (heatable ?o) (ishot ?o)))))"
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "put {__import__('os').system('true')} in shelf.",
        "put #intro# in shelf.",
        "put [x | holds(a:agent, o:object)] in shelf.",
        'put an "egg" in shelf.',
        'put """ in shelf.',
        "put \\n in shelf.",
        "two\nlines.",
        "ünusual.",
        "",
        "x" * 401,
    ],
)
def test_a_sentence_that_a_grammar_would_evaluate_is_refused(tmp_path, sentence):
    problem = dataclasses.replace(odd_house(1), sentence=sentence)
    with pytest.raises(ValueError, match=r"sentence: .*expected up to 400 letters"):
        export_game(problem, tmp_path)
    assert not any(tmp_path.rglob("*.tw-pddl"))


def test_what_cannot_be_written_is_refused_by_name(tmp_path):
    problem = generate("pick_and_place_simple", random.Random(0), 4, 3)
    for split in ("", "../up", "/abs", "a/b", ".."):
        with pytest.raises(ValueError, match=r"split: .*plain folder name"):
            export_game(problem, tmp_path, split)
    for id in ("a b", "x)", "é", "9", "a" * 300):
        renamed = dataclasses.replace(problem, start=id)
        with pytest.raises(ValueError, match=r"location: .*expected letters, digits and _"):
            export_game(renamed, tmp_path)
    with pytest.raises(ValueError, match="has no plan"):
        export_game(dataclasses.replace(problem, inside=frozenset()), tmp_path)
    with pytest.raises(ValueError, match="is won before it begins"):
        lying = {(o.id, r.id) for o in problem.objects for r in problem.receptacles}
        export_game(dataclasses.replace(problem, inside=frozenset(lying)), tmp_path)
    assert list(tmp_path.iterdir()) == []
