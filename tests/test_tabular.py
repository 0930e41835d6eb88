"""FrozenLake and other tables of Gymnasium as text worlds, against Gymnasium itself."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, make_world
from gagpo.envs.exact import enumerate_states, optimal, solve, solve_horizon, uniform
from gagpo.envs.tabular import (
    LAKE_COMMANDS,
    FrozenLakeWorld,
    Rendering,
    TabularText,
    lake_rendering,
)

gymnasium = pytest.importorskip("gymnasium")
toy_text = pytest.importorskip("gymnasium.envs.toy_text")

MAP = ("SFFF", "FHFH", "FFFH", "HFFG")  # Gymnasium's own 4x4
GAMMA = 0.95


def lake(slippery: bool = True, **settings) -> TabularText:
    env = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=slippery)
    return TabularText(env, lake_rendering(MAP), "frozenlake/test/4x4", **({"max_steps": 50} | settings))


def counting(num_states: int, won: int, *commands: str) -> Rendering:
    """The least rendering there is."""
    return Rendering("go.", commands, [f"place {s}" for s in range(num_states)].__getitem__, won.__eq__)


def table_of(env) -> tuple[np.ndarray, np.ndarray]:
    """(states, actions, states) chances without the end, and mean rewards, from Gymnasium's P."""
    table = env.unwrapped.P
    chance = np.zeros((len(table), len(table[0]), len(table)))
    reward = np.zeros((len(table), len(table[0])))
    for s, actions in table.items():
        for a, outcomes in actions.items():
            for probability, after, r, ended in outcomes:
                reward[s, a] += probability * r
                chance[s, a, after] += 0 if ended else probability
    return chance, reward


@pytest.mark.parametrize("slippery", [False, True])
def test_values_equal_those_of_gymnasiums_own_table(slippery: bool):
    """V and Q of the uniform policy, and V* by plain value iteration over the table."""
    graph = enumerate_states(lake(slippery))
    chance, reward = table_of(gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=slippery))
    places = [int(state.key) for state in graph.states]
    assert sorted(places) == [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14], "neither holes nor the goal"
    value = np.linalg.solve(np.eye(16) - GAMMA * chance.mean(1), reward.mean(1))
    values = solve(graph, uniform, GAMMA)
    assert np.allclose(values.value, value[places], rtol=0, atol=1e-13)
    q = reward + GAMMA * chance @ value
    for state, place in zip(graph.states, places, strict=True):
        for action, command in enumerate(LAKE_COMMANDS):
            assert values.q[graph.pair(state.key, command)] == pytest.approx(q[place, action], abs=1e-13)
    best = np.zeros(16)
    for _ in range(2000):
        best = (reward + GAMMA * chance @ best).max(1)
    assert np.allclose(optimal(graph, GAMMA)[1].value, best[places], rtol=0, atol=1e-12)
    if not slippery:
        assert best[0] == pytest.approx(GAMMA**5, abs=1e-14), "six moves to the goal"


def test_the_known_success_of_the_slippery_lake():
    """Without discount the best policy of the 4x4 lake reaches the goal with probability 14/17."""
    graph = enumerate_states(lake())
    policy, _ = optimal(graph, 1 - 1e-9)
    assert solve(graph, policy, 1.0).value[0] == pytest.approx(14 / 17, abs=1e-9)


def test_monte_carlo_agrees_within_four_standard_errors():
    """Played with its slips under the step limit, against backward induction."""
    env, horizon, returns = lake(max_steps=20), 20, []
    expected = solve_horizon(enumerate_states(env), uniform, GAMMA, horizon)[horizon].value[0]
    rng = np.random.default_rng(3)
    for seed in range(4000):
        env.reset(seed=seed)
        total, factor, over = 0.0, 1.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(str(rng.choice(LAKE_COMMANDS)))
            total, factor, over = total + factor * reward, factor * GAMMA, terminated or truncated
        returns.append(total)
    error = np.std(returns, ddof=1) / np.sqrt(len(returns))
    assert 0 < error < expected / 5 and abs(np.mean(returns) - expected) < 4 * error


def test_it_plays_as_gymnasium_plays():
    """The same seed and actions give the same states, rewards and ends, slips and all."""
    ours, theirs = lake(reward_scale=10.0, max_steps=999), gymnasium.make("FrozenLake-v1").unwrapped
    rng, num_won, describe = np.random.default_rng(0), 0, lake_rendering(MAP).describe
    for seed in range(300):
        text, info = ours.reset(seed=seed)
        state, _ = theirs.reset(seed=seed)
        assert (ours.state_key(), text, info) == (str(state), describe(state), {"won": False})
        ended = False
        while not ended:
            action = int(rng.integers(4))
            text, reward, ended, truncated, info = ours.step(LAKE_COMMANDS[action])
            state, r, t, _, _ = theirs.step(action)
            assert (reward, ended, truncated) == (10.0 * r, t, False)
            assert (ours.state_key(), text) == (str(state), describe(state))
            assert info == {"won": bool(r), "valid": True}
        num_won += info["won"]
    assert num_won > 0


def test_what_is_seen_by_hand_and_how_it_ends():
    env = lake(False)
    assert env.goal == "reach the goal at row 4 column 4."
    assert env.reset()[0] == (
        "You are at row 1 column 1. north: the edge, east: ice, south: ice, west: the edge."
    )
    assert env.step("go east")[0] == (
        "You are at row 1 column 2. north: the edge, east: ice, south: a hole, west: ice."
    )
    assert env.step("go south")[1:] == (0.0, True, False, {"won": False, "valid": True})
    assert env.expert() is None
    with pytest.raises(ValueError, match="has ended"):
        env.step("go north")


def test_nonsense_costs_a_step_and_changes_nothing():
    env = lake(max_steps=2)
    env.reset(seed=4)
    key = env.state_key()
    assert env.step("jump") == ("Nothing happens.", 0.0, False, False, {"won": False, "valid": False})
    assert env.state_key() == key
    assert env.step("jump")[1:4] == (0.0, False, True)
    with pytest.raises(ValueError, match="has ended"):
        env.step("go east")


def test_a_snapshot_repeats_the_slips():
    """Restored or pickled, the same commands slip the same way; other seeds slip otherwise."""
    env, trails = lake(), set()
    for seed in range(40):
        env.reset(seed=seed)
        kept = env.snapshot()
        copy, played = pickle.loads(pickle.dumps(env)), []
        for player in (env, env, copy):
            if player is env:
                player.restore(kept)
            played.append([])
            while not player.snapshot()[1] and len(played[-1]) < 4:
                played[-1].append(player.step("go east")[0])
        assert played[0] == played[1] == played[2]
        trails.add(tuple(played[0]))
    assert len(trails) > 4


def test_the_expert_is_the_best_policy_and_leaves_the_env_as_it_was():
    env = lake()
    env.reset(seed=1)
    before = env.snapshot()
    assert env.expert() in env.admissible() and env.snapshot() == before
    graph = enumerate_states(env)
    _, values = optimal(graph, 0.99)
    for state in graph.states:
        env.restore(state.snapshot)
        assert values.advantage[graph.pair(state.key, env.expert())] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "num_states", "commands"),
    [
        ("CliffWalkingEnv", 48, ("up", "right", "down", "left")),
        ("TaxiEnv", 500, ("south", "north", "east", "west", "pick up", "drop off")),
    ],
)
def test_any_table_plays_and_is_solved(name: str, num_states: int, commands: tuple[str, ...]):
    """Their rewards are -1 a step, -100 and -10 for mistakes: signs and scales do not matter."""
    theirs = getattr(toy_text, name)()
    graph = enumerate_states(TabularText(theirs, counting(num_states, 47, *commands), name, max_steps=200))
    chance, reward = table_of(theirs)
    places = [int(state.key) for state in graph.states]
    value = np.linalg.solve(np.eye(num_states) - GAMMA * chance.mean(1), reward.mean(1))
    assert np.allclose(solve(graph, uniform, GAMMA).value, value[places], rtol=1e-12, atol=1e-9)
    if name == "CliffWalkingEnv":
        _, best = optimal(graph, GAMMA)
        assert best.value[0] == pytest.approx(-(1 - GAMMA**13) / (1 - GAMMA), rel=1e-12), "13 moves of -1"


def test_a_rendering_that_does_not_fit_is_refused():
    for name, num in (("FrozenLake-v1", 4), ("CartPole-v1", 0)):
        with pytest.raises(ValueError, match=f"has a transition table P of {num} actions; expected 2"):
            TabularText(gymnasium.make(name), counting(16, 15, "a", "b"), "t", max_steps=5)


def test_splits_share_no_lake_and_words_are_known():
    world = make_world(WorldConfig(env="frozenlake"))
    lakes, words = {}, world.words()
    for split in ("train", "unseen"):
        envs = [world.make(task) for task in world.tasks(split, 80, np.random.default_rng(5))]
        lakes[split] = {env._env.desc.tobytes() for env in envs}
        for env in envs:
            assert isinstance(env, Env)
            seen = [env.goal, env.reset(seed=0)[0], *env.admissible(), env.step("jump")[0]]
            text = " ".join([*seen, *map(env.rendering.describe, range(16))]).lower()
            for mark in ".:,":
                text = text.replace(mark, f" {mark} ")
            assert set(text.split()) <= words
    assert len(lakes["train"]) > 60 and not lakes["train"] & lakes["unseen"]
    same = [w.make("frozenlake/train/3")._env.desc.tobytes() for w in (world, FrozenLakeWorld(WorldConfig()))]
    assert same[0] == same[1]


def test_without_gymnasium_the_message_says_what_to_do():
    program = """
import sys
sys.modules["gymnasium"] = None
from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
try:
    make_world(WorldConfig(env="frozenlake"))
except ValueError as error:
    sys.exit(7 if "pip install gymnasium" in str(error) else 1)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 7
