"""Exact values of recorded steps, against recursion over played commands and numbers by hand."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from corridor import Corridor, CorridorWorld
from played import half_good, play

from gagpo.config import RolloutConfig, WorldConfig
from gagpo.envs.exact import State, enumerate_states, solve, uniform
from gagpo.envs.keydoor import KeyDoorWorld
from gagpo.oracle import Tabular, values_of_steps
from gagpo.rollout import collect
from gagpo.state_actor import StateActor
from gagpo.table import Outcome, Step, Trajectory

GAMMA = 0.9
TASK = "corridor-train-1"  # the goal is place 4 of 0 to 4, the start place 2, the limit 8 steps


def step(key: str, action: str, valid: bool = True) -> Step:
    return Step("", key, (), action, (1,), (2,), (-0.5,), 0.0, valid)


def recorded(*steps: Step) -> Trajectory:
    return Trajectory(TASK, 0, 0, steps, Outcome.TRUNCATED, False, "", "", "")


def right(state: State) -> list[float]:
    return [float(command == "go right") for command in state.commands]


def test_always_right_by_hand():
    """From place p the goal is 4 - p steps away: V = gamma^(3 - p), with enough steps left."""
    steps = step("2", "go left"), step("1", "jump", False), step("1", " go right "), step("3", "go right")
    free = values_of_steps([recorded(*steps)], CorridorWorld(), right, GAMMA, step_limit=None)
    np.testing.assert_allclose(free.value, [0.9, 0.81, 0.81, 1.0], 1e-12)
    np.testing.assert_allclose(free.q, [0.9**3, 0.9**3, 0.81, 1.0], 1e-12)
    np.testing.assert_allclose(free.advantage, [0.9**3 - 0.9, 0.9**3 - 0.81, 0, 0], atol=1e-12)
    np.testing.assert_array_equal(free.q_interval, np.stack([free.q, free.q], 1))
    # From place 1 three steps are needed: with a limit of four, the jump spends one too many.
    five, four = (
        values_of_steps([recorded(*steps)], CorridorWorld(), right, GAMMA, step_limit=n) for n in (5, 4)
    )
    np.testing.assert_allclose(five.value, free.value, 1e-12)
    np.testing.assert_allclose(five.q, free.q, 1e-12)
    np.testing.assert_allclose(four.value, [0.9, 0.81, 0, 1.0], 1e-12)
    np.testing.assert_allclose(four.q, [0.9**3, 0, 0, 1.0], 1e-12)


@pytest.mark.parametrize("step_limit", [9, 14])
def test_recorded_keydoor_steps_equal_recursion_over_played_commands(step_limit):
    world = KeyDoorWorld(WorldConfig(env="keydoor", max_steps=step_limit))
    plenty = KeyDoorWorld(WorldConfig(env="keydoor", max_steps=100))
    tasks = world.tasks("train", 2, np.random.default_rng(3))
    policy = half_good(plenty, tasks)
    played = [play(world, task, sibling, policy, 0.2) for task in tasks for sibling in range(4)]
    found = values_of_steps(played, plenty, policy, GAMMA, step_limit=step_limit)

    @cache
    def value(task: str, snapshot) -> float:
        env = world.make(task)
        env.restore(snapshot)
        state = State(env.state_key(), env.admissible(), snapshot, task_id=task)
        return sum(p * q(task, snapshot, c) for p, c in zip(policy(state), state.commands, strict=True))

    @cache
    def q(task: str, snapshot, command: str) -> float:
        env = world.make(task)
        env.restore(snapshot)
        _, reward, terminated, truncated, _ = env.step(command)
        return reward + (0.0 if terminated or truncated else GAMMA * value(task, env.snapshot()))

    row = 0
    for trajectory in played:
        env = world.make(trajectory.task_id)
        env.reset()
        for step in trajectory.steps:
            here = env.snapshot()
            assert found.value[row] == pytest.approx(value(trajectory.task_id, here), abs=1e-10)
            assert found.q[row] == pytest.approx(q(trajectory.task_id, here, step.action), abs=1e-10)
            env.step(step.action)
            row += 1
    assert row == len(found.value) == len(found.q) and not all(s.valid for t in played for s in t.steps)
    np.testing.assert_array_equal(found.advantage, found.q - found.value)
    assert np.unique(found.value.round(6)).size > 8, "the comparison is of more than a few numbers"


def test_a_table_and_a_callable_are_the_same_policy():
    world = CorridorWorld()
    graph = enumerate_states(Corridor(TASK))
    table = Tabular({TASK: {s.key: {"wait": 0.25, "go right": 0.75} for s in graph.states}})

    def model(state: State) -> list[float]:
        assert state.goal == "reach place 4" and state.observation == f"you are at place {state.key}."
        return [{"wait": 0.25, "go right": 0.75}.get(command, 0.0) for command in state.commands]

    np.testing.assert_array_equal(solve(graph, table, GAMMA).q, solve(graph, model, GAMMA).q)
    steps = recorded(step("2", "wait"), step("2", "go left"))
    by_table, by_model = (
        values_of_steps([steps], world, policy, GAMMA, step_limit=8) for policy in (table, model)
    )
    np.testing.assert_array_equal(by_table.q, by_model.q)


def test_an_actor_plays_what_the_policy_says_and_tells_its_logprobs():
    """The corridor from place 2, a limit of 8: the first command is wait with 1/4, else right."""
    world = CorridorWorld()
    table = Tabular({TASK: {str(p): {"wait": 0.25, "go right": 0.75} for p in range(4)}})
    actor = StateActor(table)
    how = {"num_siblings": 400, "temperature": 1.0, "seed": (1,)}
    played = collect(world, actor, [TASK], RolloutConfig(), **how)
    first = [t.steps[0].action for t in played]
    assert set(first) == {"wait", "go right"} and abs(first.count("wait") / 400 - 0.25) < 4 * 0.0217
    for step in (s for t in played for s in t.steps):
        assert step.valid and np.exp(step.logprobs) == pytest.approx({"wait": 0.25}.get(step.action, 0.75))
    truth = values_of_steps(played, world, table, GAMMA, step_limit=8)
    returns = [sum(GAMMA**k * s.reward for k, s in enumerate(t.steps)) for t in played]
    assert np.mean(returns) == pytest.approx(truth.value[0], abs=4 * np.std(returns) / 20)
    assert played == collect(world, actor, [TASK], RolloutConfig(), **how)
    with pytest.raises(ValueError, match=r"temperature: 0\.5; expected 1"):
        collect(world, actor, [TASK], RolloutConfig(), **(how | {"temperature": 0.5}))


def test_what_does_not_fit_is_named():
    world = CorridorWorld()
    with pytest.raises(ValueError, match=r"state_key: '9' is no state of task 'corridor-train-1'"):
        values_of_steps([recorded(step("9", "wait"))], world, uniform, GAMMA, step_limit=8)
    with pytest.raises(ValueError, match=r"action: 'fly' in state '2' .* was valid; expected one of go left"):
        values_of_steps([recorded(step("2", "fly"))], world, uniform, GAMMA, step_limit=8)
    with pytest.raises(ValueError, match=r"step_limit: 1; a trajectory of task .* has 2 steps"):
        values_of_steps([recorded(step("2", "wait"), step("2", "wait"))], world, uniform, GAMMA, step_limit=1)
    missing = Tabular({TASK: {"2": {"wait": 1.0}}})
    with pytest.raises(ValueError, match=r"table: nothing for state '1' of task 'corridor-train-1'"):
        values_of_steps([recorded(step("2", "wait"))], world, missing, GAMMA, step_limit=8)
    with pytest.raises(ValueError, match=r"table: fly for state '2'"):
        Tabular({TASK: {"2": {"fly": 1.0}}})(State("2", ("wait",), None, task_id=TASK))
    with pytest.raises(ValueError, match=r"gamma: 1\.5"):
        values_of_steps([recorded(step("2", "wait"))], world, uniform, 1.5, step_limit=8)
