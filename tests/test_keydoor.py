"""The keydoor world: its rules in a hand-made house, its splits, its words, and training on it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, make_world
from gagpo.envs.exact import enumerate_states
from gagpo.envs.keydoor import ROOMS, House, KeyDoor, KeyDoorWorld, generate, shortest_plan
from gagpo.envs.seeded import split_of

PASSAGES = ((0, 1), (1, 2), (2, 5), (3, 4), (3, 6), (4, 5), (6, 7), (7, 8))  # one long snake
SNAKE = House(PASSAGES, door=(2, 5), start=1, key=0, target=4)


def snake(max_steps: int = 20) -> KeyDoor:
    return KeyDoor(SNAKE, "keydoor/train/0", max_steps=max_steps, success_reward=10.0)


def test_a_house_by_hand():
    env = snake()
    assert env.goal == "find the key and reach the entrance."
    assert env.reset() == ("You are in the bathroom. Exits: east, west.", {"won": False})
    script = [
        ("go west", "You are in the attic. Exits: east. A key lies here."),
        ("unlock door", "Nothing happens."),
        ("take key", "You are in the attic. Exits: east."),
        ("go east", "You are in the bathroom. Exits: east, west."),
        ("go east", "You are in the cellar. Exits: west. A locked door leads south."),
        ("go south", "Nothing happens."),
        ("unlock door", "You are in the cellar. Exits: south, west."),
        ("go south", "You are in the foyer. Exits: north, west."),
    ]
    for command, seen in script:
        valid = command in env.admissible()
        assert env.step(command) == (seen, 0.0, False, False, {"won": False, "valid": valid})
        assert valid == (seen != "Nothing happens.")
    assert env.step("go west")[1:] == (10.0, True, False, {"won": True, "valid": True})
    assert env.expert() is None
    with pytest.raises(ValueError, match="has ended"):
        env.step("go east")


def test_what_is_seen_hides_the_key_and_a_snapshot_brings_it_back():
    env = snake()
    before, _ = env.reset()
    first, kept = env.state_key(), env.snapshot()
    env.step("go west")
    env.step("take key")
    after, *_ = env.step("go east")
    assert after == before and (first, env.state_key()) == ("bathroom, key lies", "bathroom, key held")
    env.restore(kept)
    assert (env.state_key(), env.snapshot()) == (first, kept)


def test_the_step_limit_truncates_and_a_nonsense_step_counts():
    env = snake(max_steps=2)
    assert env.step("dance")[1:4] == (0.0, False, False)
    assert env.step("go east")[1:4] == (0.0, False, True)


def test_the_longest_plan_has_seventeen_steps():
    assert len(shortest_plan(House(PASSAGES, door=(2, 5), start=1, key=0, target=4), (1, 0))) == 7
    far = House(((0, 1), (1, 2), (2, 5), (4, 5), (3, 4), (3, 6), (6, 7), (7, 8)), (7, 8), 7, 0, 8)
    assert len(shortest_plan(far, (7, 0))) == 17
    houses = [generate(random.Random(seed)) for seed in range(2000)]
    lengths = [len(shortest_plan(house, (house.start, 0))) for house in houses]
    assert 3 <= min(lengths) < 5 and 12 < max(lengths) <= 17
    assert len(set(houses)) > 1900, "houses hardly ever repeat"


def test_the_goal_is_out_of_reach_without_the_key():
    for seed in range(200):
        house = generate(random.Random(seed))
        graph = enumerate_states(KeyDoor(house, "t", max_steps=99, success_reward=1.0))
        without = {key.split(",")[0] for key in graph.index if key.endswith("key lies")}
        assert {ROOMS[house.start], ROOMS[house.key]} <= without and ROOMS[house.target] not in without


def test_splits_share_no_house_and_ids_are_exact():
    world, houses = KeyDoorWorld(WorldConfig(env="keydoor")), {}
    for split in ("train", "unseen"):
        tasks = world.tasks(split, 200, np.random.default_rng(5))
        houses[split] = {world.make(task).house for task in tasks}
        assert len(set(tasks)) == 200 and {split_of(house) for house in houses[split]} == {split}
    assert not houses["train"] & houses["unseen"]
    for bad in ("keydoor/train", "keydoor/test/1", "keydoor/train/01", "keydoor/train/-1", "house/train/1"):
        with pytest.raises(ValueError, match=r"task_id: .*; expected keydoor/<train\|unseen>"):
            world.make(bad)
    with pytest.raises(ValueError, match=r"task_types: 'keydor'.*did you mean 'keydoor'"):
        KeyDoorWorld(WorldConfig(task_types=("keydor",)))


def test_the_tokenizer_knows_every_word():
    from gagpo.tiny import tiny_tokenizer

    world = make_world(WorldConfig(env="keydoor"))
    tokenizer = tiny_tokenizer(world.words())
    for task in world.tasks("train", 40, np.random.default_rng(1)):
        env = world.make(task)
        assert isinstance(env, Env)
        texts = [env.goal, env.reset()[0], env.step("dance")[0]]
        for state in enumerate_states(env).states:
            env.restore(state.snapshot)
            texts += [*env.admissible(), env.step(env.admissible()[0])[0]]
        assert tokenizer.unk_token_id not in tokenizer(" ".join(texts))["input_ids"]


@pytest.mark.parametrize("name", ["keydoor", "frozenlake"])
def test_the_tiny_policy_trains_on_it(name: str, tmp_path: Path):
    if name == "frozenlake":
        pytest.importorskip("gymnasium")
    from test_train import request

    from gagpo.__main__ import train_run
    from gagpo.steps_file import read_steps, read_trajectories

    settings = {"env": name, "task_types": [], "max_steps": 20, "iterations": 2}
    run = request(tmp_path, **settings)
    assert train_run(run) == 0
    trajectories = read_trajectories(read_steps(run.steps_path(2)))
    assert len(trajectories) == 8
    for trajectory in trajectories:
        assert trajectory.task_id.startswith(f"{name}/train/")
        assert all(step.valid for step in trajectory.steps), "the tokenizer knows every word"
        assert trajectory.total_reward == (10.0 if trajectory.success else 0.0)
    assert f"success_rate/{name}" in run.read_metrics("eval")[0]
    assert all(record["gradient_norm"] is not None for record in run.read_metrics("train"))
