"""Random play against TextWorld itself, where the `alfworld` extra is installed (it seldom is)."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from gagpo.config import WorldConfig
from gagpo.envs.base import make_world

# Commands that seldom come up by chance and have the oddest rules are tried more often.
WEIGHTS = {"take": 8, "move": 6, "open": 8, "slice": 8, "use": 4, "clean": 3, "heat": 3, "cool": 3, "look": 4}


@pytest.fixture
def textworld_env(monkeypatch):
    """A function that opens a game file in TextWorld, with ALFWorld's names of things."""
    textworld = pytest.importorskip("textworld")
    pddl = pytest.importorskip("textworld.envs.pddl.pddl")
    alfred = pytest.importorskip("alfworld.agents.utils.misc")
    # loading a game overwrites sys.argv and swaps sys.stdout
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "stdout", sys.stdout)

    def load(path):
        env = pddl.PddlEnv(textworld.EnvInfos(admissible_commands=True, won=True, feedback=True))
        env.load(str(path))
        demangler = alfred.Demangler(game_infos=env._entity_infos)
        for info in env._entity_infos.values():
            info.name = demangler.demangle_alfred_name(info.id)
        return env

    return load


def test_random_play_equals_textworld(shared_dir, textworld_env):
    root = shared_dir / "data" / "alfworld" / "json_2.1.1"
    world = make_world(WorldConfig(env="alfworld", games=str(root), max_steps=10_000))
    rng = random.Random(0)
    for split in ("train", "unseen"):
        for task_id in world.tasks(split, 100, np.random.default_rng(0)):
            ours, theirs = world.make(task_id), textworld_env(root / task_id / "game.tw-pddl")
            state = theirs.reset()
            observation, info = ours.reset()
            for _ in range(60):
                assert observation == state.feedback
                assert list(ours.admissible()) == state["admissible_commands"]
                assert info["won"] == state["won"]
                if info["won"]:
                    break
                commands = [*ours.admissible(), "dance"]
                weights = [WEIGHTS.get(command.split()[0], 1) for command in commands]
                [command] = rng.choices(commands, weights)
                observation, _, _, _, info = ours.step(command)
                state, _, _ = theirs.step(command)
