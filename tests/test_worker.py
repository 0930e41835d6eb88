"""Environments in processes: as good as at home when they are well, bounded when they are not."""

from __future__ import annotations

import time

import numpy as np
import pytest

from gagpo.config import RolloutConfig, WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.check import check_env
from gagpo.envs.worker import EnvFailed, WorkerWorld
from gagpo.rollout import Action, collect

# A corridor whose right-hand tasks do what `fault` says at their second step.
PLUGIN = """
import os, time
from corridor import Corridor, CorridorWorld

class Faulty(Corridor):
    def step(self, action):
        if self.target and self.num_steps == 1:
            {fault}
        return super().step(action)

class World(CorridorWorld):
    def make(self, task_id):
        return Faulty(task_id)

def make_world(config):
    return World()
"""
FAULTS = {
    "os._exit(3)": "process ended",
    "time.sleep(600)": "did not answer within 1 s",
    "raise RuntimeError('broken inside')": "broken inside",
    "return 'text', 0.0, False, False, {{'won': 'no', 'valid': True}}": "answered",
    "return 7, 0.0, False, False, {{'won': False, 'valid': True}}": "answered",
    "return 'text', float('nan'), False, False, {{'won': False, 'valid': True}}": "answered",
    "return 'text', 10**400, False, False, {{'won': False, 'valid': True}}": "answered",
    "return chr(0xD800), 0.0, False, False, {{'won': False, 'valid': True}}": "answered",
}


class Waits:
    """An actor that waits, always."""

    def encode(self, prompts):
        return [(1,) for _ in prompts]

    def act(self, turns, temperature, seed):
        return [Action("wait", (1,), (0.0,), False) for _ in turns]


@pytest.fixture
def world(tmp_path, monkeypatch, request):
    """A world from another package, found by the processes too: they get this one's sys.path."""
    name = f"faulty{abs(hash(request.param))}"
    (tmp_path / f"{name}.py").write_text(PLUGIN.format(fault=request.param.format()))
    info = tmp_path / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[gagpo.worlds]\n{name} = {name}:make_world\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return WorkerWorld(WorldConfig(env=name), time_limit_s=1.0)


def test_a_household_in_a_process_keeps_the_contract_and_plays_as_at_home():
    config = WorldConfig(max_steps=10)
    away, home = WorkerWorld(config, time_limit_s=30.0), make_world(config)
    task = home.tasks("train", 1, np.random.default_rng(0))[0]
    check_env(lambda: away.make(task), num_steps=12)
    here, there = home.make(task), away.make(task)
    assert here.reset(seed=1) == there.reset(seed=1) and here.goal == there.goal
    for command in (*here.plan()[:5], "nonsense"):
        assert here.step(command) == there.step(command)
        assert here.state_key() == there.state_key() and here.admissible() == there.admissible()
        assert here.expert() == there.expert() and here.render() == there.render()


@pytest.mark.parametrize(("world", "text"), FAULTS.items(), indirect=["world"])
def test_a_fault_is_one_error_and_costs_its_group_only(world, text):
    env = world.make("corridor-train-1")
    env.reset()
    env.step("wait")
    begun = time.monotonic()
    with pytest.raises(EnvFailed, match=f"^step: task 'corridor-train-1': .*{text}"):
        env.step("wait")
    assert time.monotonic() - begun < 10
    with pytest.raises(EnvFailed, match=text):  # and it stays failed
        env.reset()
    failures: dict[str, Exception] = {}
    tasks = ["corridor-train-1", "corridor-train-2"]
    played = collect(
        world, Waits(), tasks, RolloutConfig(), num_siblings=1, temperature=1.0, seed=(0,), failures=failures
    )
    assert [t.task_id for t in played] == ["corridor-train-2"] and len(played[0].steps) == 8
    assert list(failures) == ["corridor-train-1"] and isinstance(failures["corridor-train-1"], EnvFailed)


def test_limits_and_task_ids_are_checked():
    with pytest.raises(ValueError, match="time_limit_s: 0"):
        WorkerWorld(WorldConfig(), time_limit_s=0)
    with pytest.raises(ValueError, match="task_id: 'nowhere'"):
        WorkerWorld(WorldConfig(), time_limit_s=5.0).make("nowhere")
