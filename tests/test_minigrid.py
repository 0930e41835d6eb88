"""MiniGrid, BabyAI and drawings of Gymnasium in words: views by hand, keys, copies, plans, the contract."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

pytest.importorskip("minigrid", reason="the package minigrid is not installed")

from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.check import check_env, check_world
from gagpo.envs.gymtext import GymText, make_env
from gagpo.envs.minigrid import LEVELS, MiniGridWorld, import_minigrid
from gagpo.envs.worker import WorkerWorld

VARIED = (*(level for level in LEVELS if "Empty" not in level), "BabyAI-OpenDoor-v0")
EMPTY = "MiniGrid-Empty-5x5-v0"


def world(*levels: str, **settings: object) -> MiniGridWorld:
    return make_world(WorldConfig(env="minigrid", task_types=levels, **{"max_steps": 40, **settings}))


def game(level: str, **settings: object) -> GymText:
    """The first task of a level."""
    made = world(level, **settings)
    played = made.make(made.tasks("train", 1, np.random.default_rng(0))[0])
    played.reset()
    return played


def run(played: GymText, *commands: str) -> tuple[str, float, bool, bool, dict]:
    for command in commands[:-1]:
        assert not played.step(command)[2]
    return played.step(commands[-1])


@pytest.mark.parametrize("level", VARIED)
def test_the_contract_holds(level: str) -> None:
    check_world(world(level), num_tasks=1, num_steps=15)


def test_the_contract_holds_with_the_whole_grid_and_where_there_is_one_layout() -> None:
    check_world(world("MiniGrid-DoorKey-5x5-v0", full_view=True), num_tasks=1, num_steps=15)
    made = world(EMPTY)
    (task,) = made.tasks("train", 1, np.random.default_rng(0))
    check_env(lambda: made.make(task), num_steps=15)
    with pytest.raises(ValueError, match=r"none of MiniGrid-Empty-5x5-v0 has a layout for 'unseen'"):
        made.tasks("unseen", 1, np.random.default_rng(0))


def test_what_is_seen_from_the_corner_of_an_empty_room() -> None:
    """The room is 3 by 3; the agent stands in its north-west, facing east, the goal is south-east."""
    played = game(EMPTY)
    assert played.goal == "get to the green goal square."
    observation, _ = played.reset()
    assert observation == (
        "You face east. You carry nothing. "
        "Wall: 1 left, 3 right, 3 ahead. You see a green goal 2 ahead 2 right."
    )
    assert run(played, "turn right")[0] == (
        "You face south. You carry nothing. "
        "Wall: 1 right, 3 left, 3 ahead. You see a green goal 2 ahead 2 left."
    )
    whole, _ = game(EMPTY, full_view=True).reset()
    assert whole.splitlines() == [
        "You face east. You carry nothing.",
        "a green goal at row 3 column 3",
        *("#####", "#>..#", "#...#", "#..?#", "#####"),
    ]


def test_the_empty_room_by_hand() -> None:
    played = game(EMPTY)
    commands = ["move forward", "move forward", "turn right", "move forward", "move forward"]
    start = played.snapshot()
    _, reward, terminated, truncated, info = run(played, *commands)
    assert (reward, terminated, truncated, info) == (10.0, True, False, {"won": True, "valid": True})
    played.restore(start)
    plan = []
    while (command := played.expert()) is not None:
        plan.append(command)
        played.step(command)
    assert len(plan) == len(commands)


def test_the_way_does_not_count_and_the_place_does() -> None:
    played = game("MiniGrid-DoorKey-5x5-v0")
    start = played.state_key()
    keys = [start]
    for _ in range(4):
        played.step("turn left")
        keys.append(played.state_key())
    assert keys[4] == start and len(set(keys)) == 4
    played.step("done")
    assert played.state_key() == start


def test_a_key_that_is_held_makes_another_state() -> None:
    played = game("MiniGrid-DoorKey-5x5-v0")
    done = []
    while (command := played.expert()) is not None:
        before = played.state_key()
        observation, *_, info = played.step(command)
        done.append(command)
        if command == "pick up":
            assert "You carry a yellow key." in observation and played.state_key() != before
    assert info["won"] and done.index("pick up") < done.index("toggle")


def test_snapshots_are_copies_that_no_step_reaches() -> None:
    played, other = game("BabyAI-PickupLoc-v0"), game("BabyAI-PickupLoc-v0")
    run(other, "turn left", "move forward", "turn left")
    snapshot, key = played.snapshot(), played.state_key()
    plan = []
    while (command := played.expert()) is not None:
        plan.append(command)
        played.step(command)
    for player in (played, other):
        player.restore(snapshot)
        assert player.state_key() == key
        assert [player.step(command)[1] for command in plan][-1] == 10.0


@pytest.mark.parametrize("level", VARIED)
def test_experts_win(level: str) -> None:
    made = world(level, max_steps=200)
    for task in made.tasks("unseen", 5, np.random.default_rng(1)):
        played = made.make(task)
        played.reset()
        won = False
        while (command := played.expert()) is not None:
            won = played.step(command)[-1]["won"]
        assert won, task


def test_layouts_are_in_one_split_only() -> None:
    made = world("BabyAI-GoToLocal-v0")
    keys = {}
    for split in ("train", "unseen"):
        tasks = made.tasks(split, 40, np.random.default_rng(2))
        keys[split] = {made.make(task).state_key() for task in tasks}
    assert not keys["train"] & keys["unseen"] and len(keys["unseen"]) == 40


def test_other_environments_show_what_they_draw() -> None:
    played = game("Taxi-v4" if "Taxi-v4" in registry() else "Taxi-v3")
    observation, _ = played.reset()
    assert observation.startswith("+---------+") and "[" in observation and "\x1b" not in observation
    assert played.admissible() == tuple(f"action {number}" for number in range(6)) and played.expert() is None
    start = played.state_key()
    moved = {played.step(f"action {number}")[0] for number in range(4)}
    assert len(moved) > 1 and start == game(played.task_id.split("/")[2]).state_key()


def registry() -> dict:
    import gymnasium

    return gymnasium.registry


def test_unfit_levels_are_refused_by_name() -> None:
    import_minigrid()
    with pytest.raises(ValueError, match=r"'BabyAI-GoToLocl-v0'.*did you mean 'BabyAI-GoToLocal-v0'"):
        make_env("BabyAI-GoToLocl-v0")
    with pytest.raises(ValueError, match=r"'Pendulum-v1' has actions Box.*expected discrete"):
        world("Pendulum-v1")
    with pytest.raises(ValueError, match=r"'CartPole-v1' is no MiniGrid level.*expected 'ansi'"):
        world("CartPole-v1")
    for task in ("minigrid/train/Nothing-v0/1", f"minigrid/train/{EMPTY}/01", f"minigrid/test/{EMPTY}/1"):
        with pytest.raises(ValueError, match=r"task_id: .*expected minigrid/"):
            world(EMPTY).make(task)


def test_a_missing_package_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "minigrid"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match=r"pip install minigrid"):
        import_minigrid()


def test_levels_play_in_processes_of_their_own() -> None:
    made = WorkerWorld(WorldConfig(env="minigrid", task_types=(EMPTY,)), time_limit_s=30.0)
    played = made.make(made.tasks("train", 1, np.random.default_rng(0))[0])
    assert played.reset()[0].startswith("You face east.")
    assert played.step("move forward")[-1]["valid"]
