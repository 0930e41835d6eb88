"""Exact values against closed forms, played Bellman sums, a timed graph and Monte Carlo."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from corridor import LENGTH, Corridor

from gagpo.config import WorldConfig
from gagpo.envs.exact import enumerate_states, optimal, solve, solve_horizon, uniform
from gagpo.envs.keydoor import KeyDoor, KeyDoorWorld

GAMMA = 0.9


def keydoors(num: int = 12) -> list[KeyDoor]:
    world, rng = KeyDoorWorld(WorldConfig(env="keydoor")), np.random.default_rng(7)
    return [world.make(t) for split in ("train", "unseen") for t in world.tasks(split, num, rng)]


def skewed(state) -> np.ndarray:
    """A stochastic policy that differs from state to state, with weights up to 1 : 7."""
    weights = np.array([1.0 + (7 * i + len(state.key)) % 7 for i in range(len(state.commands))])
    return weights / weights.sum()


def test_the_corridor_by_hand():
    """Places 0 to 4, goal 4, reward 1. Always right: V = 1, gamma, gamma^2 ... backwards."""
    graph = enumerate_states(Corridor("corridor-train-1"))
    assert sorted(graph.index) == ["0", "1", "2", "3"], "the goal is no state to act in"
    _, values = optimal(graph, GAMMA)
    for place in range(LENGTH - 1):
        left = LENGTH - 1 - place
        assert values.value[graph.index[str(place)]] == pytest.approx(GAMMA ** (left - 1), abs=1e-14)
        assert values.q[graph.pair(str(place), "wait")] == pytest.approx(GAMMA**left, abs=1e-14)
        assert values.advantage[graph.pair(str(place), "go right")] == pytest.approx(0, abs=1e-14)


def test_a_waiting_walk_has_its_closed_form():
    """Wait with 3/4, else right: V of the place before the goal is 1/4 / (1 - 3/4 gamma), and so on."""
    graph = enumerate_states(Corridor("corridor-train-1"))
    odds = {"wait": 0.75, "go right": 0.25, "go left": 0.0}
    values = solve(graph, lambda state: [odds[command] for command in state.commands], GAMMA)
    ratio = 0.25 / (1 - 0.75 * GAMMA)
    for place in range(LENGTH - 1):
        left = LENGTH - 1 - place
        expected = ratio**left * GAMMA ** (left - 1)
        assert values.value[graph.index[str(place)]] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("policy", [uniform, skewed])
def test_the_bellman_residual_of_played_commands_is_rounding_only(policy):
    for env in keydoors():
        graph = enumerate_states(env)
        values = solve(graph, policy, GAMMA)
        for row, state in enumerate(graph.states):
            q = []
            for command in state.commands:
                env.restore(state.snapshot)
                _, reward, terminated, _, _ = env.step(command)
                after = 0.0 if terminated else values.value[graph.index[env.state_key()]]
                q.append(reward + GAMMA * after)
                assert values.q[graph.pair(state.key, command)] == pytest.approx(q[-1], abs=1e-10)
            assert abs(np.dot(policy(state), q) - values.value[row]) < 1e-10


def test_the_best_value_is_the_discounted_reward_of_the_shortest_plan():
    """In every state of every house; the expert's command has A = 0 and no command has more."""
    for env in keydoors():
        graph = enumerate_states(env)
        _, values = optimal(graph, GAMMA)
        for row, state in enumerate(graph.states):
            env.restore(state.snapshot)
            assert values.value[row] == pytest.approx(10 * GAMMA ** (env.distance() - 1), rel=1e-12)
            assert values.advantage[graph.pair(state.key, env.expert())] == pytest.approx(0, abs=1e-11)
        assert values.advantage.max() < 1e-10


class Timed(KeyDoor):
    """The number of steps is part of the state, and the limit ends the task: the slow reference."""

    def state_key(self):
        return f"{super().state_key()} after {self._num_steps}"

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, False, info


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_a_step_limit_is_backward_induction(gamma: float):
    """Against a graph with the step count in its state, which knows no horizon."""
    horizon = 9
    for env in keydoors(2):
        timed = Timed(env.house, env.task_id, max_steps=horizon, success_reward=10.0)
        slow_graph, graph = enumerate_states(timed), enumerate_states(env)
        slow = solve(slow_graph, lambda s: skewed(s._replace(key=s.key.split(" after ")[0])), gamma)
        fast = solve_horizon(graph, skewed, gamma, horizon)
        for row, state in enumerate(slow_graph.states):
            key, _, num_steps = state.key.partition(" after ")
            there = fast[horizon - int(num_steps)]
            assert slow.value[row] == pytest.approx(there.value[graph.index[key]], abs=1e-12)
            for command in state.commands:
                expected = there.advantage[graph.pair(key, command)]
                assert slow.advantage[slow_graph.pair(state.key, command)] == pytest.approx(
                    expected, abs=1e-12
                )


def test_a_far_horizon_is_none_and_no_step_left_is_worth_nothing():
    graph = enumerate_states(keydoors(1)[0])
    far, none = solve_horizon(graph, uniform, GAMMA, 400), solve(graph, uniform, GAMMA)
    assert np.abs(far[400].q - none.q).max() < 1e-10 < np.abs(far[3].q - none.q).max()
    assert not far[0].value.any() and not far[0].q.any()
    assert all(earlier <= later for earlier, later in pairwise(values.value[0] for values in far))


def test_bad_input_is_named():
    env = keydoors(1)[0]
    graph = enumerate_states(env)
    with pytest.raises(ValueError, match=r"max_states: .* more than 5 states"):
        enumerate_states(env, max_states=5)
    assert len(enumerate_states(env, max_states=len(graph.states)).states) == len(graph.states)
    with pytest.raises(ValueError, match="max_steps: too few"):
        enumerate_states(KeyDoor(env.house, "t", max_steps=2, success_reward=1.0))
    with pytest.raises(ValueError, match=r"gamma: 1\.5; expected between"):
        solve(graph, uniform, 1.5)
    with pytest.raises(ValueError, match="gamma: 1; expected below 1"):
        optimal(graph, 1)
    with pytest.raises(ValueError, match="horizon: -1"):
        solve_horizon(graph, uniform, 1.0, -1)
    with pytest.raises(ValueError, match=r"policy: .*probabilities with sum 1"):
        solve(graph, lambda state: [1.0] * (len(state.commands) + 1), GAMMA)
    walk = enumerate_states(Corridor("corridor-train-1"))
    with pytest.raises(ValueError, match="can play for ever"):
        solve(walk, lambda state: [float(command == "wait") for command in state.commands], 1)


class Lying(Corridor):
    """Places 0 and 1 under one key; at 0 there is no way to the left."""

    def state_key(self):
        return str(max(self.place, 1))


def test_a_state_key_that_merges_states_is_caught():
    with pytest.raises(ValueError, match=r"state_key: '1' .* two command sets"):
        enumerate_states(Lying("corridor-train-1"))
