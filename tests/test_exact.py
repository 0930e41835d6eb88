"""The key-door world and exact values: closed forms, identities, and Monte Carlo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corridor import Corridor
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo.__main__ import train_run
from gagpo.config import Config, WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.check import check_world
from gagpo.envs.exact import (
    StateGraph,
    enumerate_states,
    evaluate,
    evaluate_until,
    optimal,
    policy_of,
    uniform,
)
from gagpo.envs.keydoor import COLUMNS, ROWS, KeyDoor, Layout, layouts
from gagpo.store import open_run

LAYOUT = Layout(start=(0, 0), key=(2, 0), treasure=(0, 3), door_row=1)


def keydoor(layout: Layout = LAYOUT, max_steps: int = 30) -> KeyDoor:
    return KeyDoor(layout, "keydoor", max_steps=max_steps, success_reward=1.0)


def random_policy(graph: StateGraph, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return policy_of(graph, lambda key, commands: rng.dirichlet(np.ones(len(commands))))


def test_a_task_by_hand() -> None:
    env = keydoor()
    assert env.reset() == ("You are in row 1, column 1.", {"won": False})
    assert env.render() == "A.|.T\n..D..\nk.|..\nholds: nothing"
    seen = [
        env.step(command)
        for command in ("go south", "go east", "go east", "go west", "go south", "take key", "take key")
    ]
    assert [(s[0], s[4]["valid"]) for s in seen] == [
        ("You are in row 2, column 1.", True),
        ("You are in row 2, column 2. A door leads east. It is locked.", True),
        ("Nothing happens.", False),
        ("You are in row 2, column 1.", True),
        ("You are in row 3, column 1. There is a key.", True),
        ("You take the key. You are in row 3, column 1.", True),
        ("Nothing happens.", False),
    ]
    for command in ("go north", "go east", "unlock door", "go east", "go north", "go east"):
        text, reward, terminated, truncated, info = env.step(command)
    assert text == "You are in row 1, column 4. The treasure is here!"
    assert (reward, terminated, truncated, info) == (1.0, True, False, {"won": True, "valid": True})


def test_the_world_keeps_the_contract_and_its_splits_share_no_layout() -> None:
    check_world(make_world(WorldConfig(env="keydoor", max_steps=12)), num_tasks=8, num_steps=60)
    train, unseen = layouts("train"), layouts("unseen")
    assert len({*train, *unseen}) == len(train) + len(unseen) == (ROWS * COLUMNS // 2) ** 3 * ROWS
    assert 0.15 < len(unseen) / len(train) < 0.35


@pytest.mark.parametrize(
    "task_id", ["keydoor/train/-1", "keydoor/train/01", "keydoor/test/1", "x/train/1", "keydoor/train/9999"]
)
def test_foreign_task_ids_are_refused(task_id: str) -> None:
    with pytest.raises(ValueError, match=f"task_id: '{task_id}'; expected keydoor/"):
        make_world(WorldConfig(env="keydoor")).make(task_id)


def test_more_tasks_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tasks: 5000 of split 'train'; the key-door world has \d+"):
        make_world(WorldConfig(env="keydoor")).tasks("train", 5000, np.random.default_rng(0))


def test_texts_alias_states() -> None:
    """The same cell, with the key and without: one text, two states."""
    env = keydoor()
    env.reset()
    before = (env.step("go south")[0], env.state_key())
    env.step("go south")
    env.step("take key")
    after = (env.step("go north")[0], env.state_key())
    assert before[0] == after[0] and before[1] != after[1]


def test_states_of_a_corridor_by_hand() -> None:
    graph = enumerate_states(Corridor("c-0"))  # the goal is place 0; the start is place 2
    assert graph.keys == ("2", "1", "3", "0", "4")
    assert list(graph.offsets) == [0, 3, 6, 9, 9, 11]
    assert graph.commands[:3] == ("go left", "go right", "wait") and graph.commands[9:] == ("go left", "wait")
    assert list(graph.next_state) == [1, 2, 0, 3, 0, 1, 0, 4, 2, 2, 4]
    assert list(np.flatnonzero(graph.reward)) == list(np.flatnonzero(graph.terminated)) == [3]


def test_states_beyond_the_step_limit_are_not_there() -> None:
    assert enumerate_states(keydoor(max_steps=1)).num_states == 3, "the start and two neighbours"
    with pytest.raises(ValueError, match="states: more than 10"):
        enumerate_states(keydoor(), max_states=10)


def test_values_of_walking_straight_are_powers_of_gamma() -> None:
    graph = enumerate_states(Corridor("c-0"))
    straight = policy_of(graph, lambda key, commands: np.array([c == "go left" for c in commands]))
    values = evaluate(graph, straight, 0.5)
    assert dict(zip(graph.keys, values.value, strict=True)) == {
        "0": 0,
        "1": 1,
        "2": 0.5,
        "3": 0.25,
        "4": 0.125,
    }
    # Waiting once costs a factor gamma; going right at place 1 costs two steps.
    assert values.action_value[2] == 0.25 and values.advantage[2] == -0.25
    assert values.action_value[4] == 0.25 and values.advantage[4] == -0.75


def test_a_random_walk_against_counted_paths() -> None:
    """Chances of 1/3 each way: count the paths from place 2 that first reach 0 after 2, 3, 4 moves."""
    graph = enumerate_states(Corridor("c-0"))
    every = [values.value[0] for values in evaluate_until(graph, uniform(graph), 1.0, 4)]
    two, three = 1 / 9, 2 / 27  # left left; one wait before either
    four = 5 / 81  # two waits in three places; right or left first, and back
    assert every == pytest.approx([0, two, two + three, two + three + four])


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.floats(0, 0.99))
def test_bellmans_equations_hold(seed: int, gamma: float) -> None:
    graph = enumerate_states(keydoor())
    policy = random_policy(graph, seed)
    values = evaluate(graph, policy, gamma)
    q = np.zeros(len(policy))
    for p in range(len(policy)):
        after = 0.0 if graph.terminated[p] else values.value[graph.next_state[p]]
        q[p] = graph.reward[p] + gamma * after
    v = [policy[a:b] @ q[a:b] for a, b in zip(graph.offsets[:-1], graph.offsets[1:], strict=True)]
    assert np.abs(values.action_value - q).max() < 1e-10 and np.abs(values.value - v).max() < 1e-10
    mean = np.bincount(graph.state, policy * values.advantage)
    assert np.abs(mean).max() < 1e-10, "advantages are 0 on average"
    many = evaluate_until(graph, policy, gamma, 3000)[-1]
    assert np.abs(many.value - values.value).max() < 1e-9, "a far limit is none"


def test_values_agree_with_monte_carlo() -> None:
    """4,000 episodes under a half-sensible policy with a tight step limit, within 4 standard errors."""
    env, gamma = keydoor(Layout((1, 1), (1, 0), (1, 2), 1), max_steps=12), 0.9
    graph = enumerate_states(env)
    best = evaluate_until(graph, uniform(graph), gamma, 50)[-1].action_value
    greedy = np.zeros(len(best))
    for start, end in zip(graph.offsets[:-1], graph.offsets[1:], strict=True):
        if start < end:
            greedy[start + np.argmax(best[start:end])] = 1
    policy = 0.6 * greedy + 0.4 * uniform(graph)
    exact = evaluate_until(graph, policy, gamma, env.max_steps)[-1].value[0]
    rng, index = np.random.default_rng(0), {key: s for s, key in enumerate(graph.keys)}
    returns = []
    for _ in range(4000):
        env.reset()
        total, discount, ended = 0.0, 1.0, False
        while not ended:
            s = index[env.state_key()]
            chances = policy[graph.offsets[s] : graph.offsets[s + 1]]
            command = env.admissible()[rng.choice(len(chances), p=chances)]
            _, reward, terminated, truncated, _ = env.step(command)
            total, discount, ended = total + discount * reward, discount * gamma, terminated or truncated
        returns.append(total)
    assert 0.02 < exact < 0.9
    assert abs(np.mean(returns) - exact) < 4 * np.std(returns) / np.sqrt(len(returns))


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(layouts("train")))
def test_the_best_value_is_gamma_to_the_length_of_the_experts_plan(layout: Layout) -> None:
    env = keydoor(layout)
    env.reset()
    num = 0
    while (command := env.expert()) is not None:
        env.step(command)
        num += 1
    assert env._won()
    graph = enumerate_states(env)
    assert optimal(graph, 0.9, 30)[0] == pytest.approx(0.9 ** (num - 1))
    assert optimal(graph, 0.9, num)[0] > 0 and optimal(graph, 0.9, num - 1)[0] == 0, "no plan is shorter"


@pytest.mark.parametrize(
    ("policy", "gamma", "message"),
    [
        (lambda graph: np.ones(3), 0.9, r"policy: \(3,\); expected"),
        (lambda graph: np.ones(len(graph.commands)), 0.9, "policy: not a probability"),
        (uniform, 1.0, "gamma: 1.0; expected"),
    ],
)
def test_bad_policies_and_discounts_are_refused(policy, gamma: float, message: str) -> None:
    graph = enumerate_states(keydoor())
    with pytest.raises(ValueError, match=message):
        evaluate(graph, policy(graph), gamma)
    with pytest.raises(ValueError, match=r"policy: .*expected 3 probabilities"):
        policy_of(graph, lambda key, commands: np.ones(1))


def test_a_policy_is_trained_in_it(tmp_path: Path) -> None:
    small = {"env": "keydoor", "num_tasks": 2, "num_siblings": 4, "max_steps": 12, "hidden_size": 32}
    small |= {"num_layers": 1, "num_heads": 2, "warm_updates": 10, "warm_episodes": 10, "eval_tasks": 2}
    small |= {"final_eval_tasks": 2, "eval_every": 0, "iterations": 2, "num_threads": 1}
    run = open_run(tmp_path, "run")
    run.write_request(Config.from_flat(small))
    assert train_run(run) == 0 and run.read_status().state == "complete"
    assert all(record["singleton_share"] < 1 for record in run.read_metrics("train"))
