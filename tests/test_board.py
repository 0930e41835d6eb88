"""Boards and walks against played environments, enumeration, finite differences and the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from corridor import CorridorWorld

from gagpo.board import chances, lay_out, mixture, policies, truth_of
from gagpo.config import CreditConfig, WorldConfig
from gagpo.credit import assign_credit
from gagpo.envs.base import make_world
from gagpo.envs.exact import solve_horizon, uniform, visits
from gagpo.fidelity import correlation, policy_gradient
from gagpo.oracle import values_of_steps
from gagpo.state_keys import STATE_KEYS
from gagpo.table import Outcome, Step, StepTable, Trajectory
from gagpo.walks import draw_walks, name_states, table_of

HORIZON = 5  # the corridor: start 2 of places 0 to 4, the goal is one of its ends


def corridors():
    return lay_out(CorridorWorld(), ["corridor-train-0", "corridor-train-1"])


def keydoors(num: int = 4, slip: float = 0.0):
    world = make_world(WorldConfig(env="keydoor", max_steps=10**6))
    drawn = world.tasks("train", 50, np.random.default_rng(5))
    tasks = [task for task in drawn if 6 <= world.make(task).distance() <= 8]
    return world, lay_out(world, tasks[:num], slip=slip)


def softmax(board, logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits)
    return weights / np.bincount(board.pair_state, weights)[board.pair_state]


def some_policy(board, seed: int = 0) -> np.ndarray:
    return softmax(board, np.random.default_rng(seed).normal(size=board.num_pairs))


def episodes(board, chance, horizon, state, probability=1.0):
    """Every episode from `state` on, by recursion: (probability, [(pair, reward)])."""
    if state >= board.num_states or horizon == 0:
        yield probability, []
        return
    for pair in range(board.first_pair[state], board.first_pair[state + 1]):
        for p, after, reward in zip(
            board.outcome_chance[pair], board.outcome_state[pair], board.outcome_reward[pair], strict=True
        ):
            if p > 0:
                odds = probability * chance[pair] * p
                for total, rest in episodes(board, chance, horizon - 1, after, odds):
                    yield total, [(pair, reward), *rest]


@pytest.mark.parametrize(("slip", "horizon"), [(0.0, 5), (0.4, 3)])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_the_truth_is_the_mean_over_every_episode(gamma, slip, horizon):
    """Visits, success and gradient against a sum over all episodes of the corridor, by their returns."""
    board = lay_out(CorridorWorld(), ["corridor-train-0", "corridor-train-1"], slip=slip)
    chance = some_policy(board)
    truth = truth_of(board, chance, gamma, horizon)
    visited, gradient = np.zeros((horizon, board.num_states)), np.zeros(board.num_pairs)
    for task, start in enumerate(board.start):
        success = 0.0
        for probability, steps in episodes(board, chance, horizon, start):
            pair, reward = map(np.array, zip(*steps, strict=True))
            for t, state in enumerate(board.pair_state[pair]):
                visited[t, state] += probability
            to_go = np.array([reward[t:] @ gamma ** np.arange(len(pair) - t) for t in range(len(pair))])
            gradient += probability * policy_gradient(to_go, pair, chance, board.pair_state)
            success += probability * (reward.sum() > 0)
        assert truth.success[task] == pytest.approx(success, abs=1e-12) and 0.02 < success < 0.9
    np.testing.assert_allclose(truth.gradient, gradient, atol=1e-12)
    own = [visits(g, p, horizon) for g, p in zip(board.graphs, policies(board, chance), strict=True)]
    np.testing.assert_allclose(np.concatenate(own, 1), visited, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: keydoors(3)[1], lambda: keydoors(2, 0.3)[1], corridors])
def test_the_gradient_at_gamma_1_is_that_of_the_expected_return(make):
    """Against central differences of V(start) in every logit."""
    board, horizon = make(), 12
    logits = np.random.default_rng(1).normal(size=board.num_pairs)

    def objective(logits: np.ndarray) -> float:
        each = policies(board, softmax(board, logits))
        pairs = zip(board.graphs, each, strict=True)
        return sum(solve_horizon(graph, policy, 1.0, horizon)[horizon].value[0] for graph, policy in pairs)

    found = truth_of(board, softmax(board, logits), 1.0, horizon).gradient
    slopes = [(objective(logits + h) - objective(logits - h)) / 2e-5 for h in 1e-5 * np.eye(len(logits))]
    np.testing.assert_allclose(found, slopes, atol=1e-7)
    assert np.abs(found).max() > 1e-3


def test_visits_by_hand():
    """Wait with 1/2 and right with 1/2 from place 2, the goal being 4: binomials, less who has arrived."""
    board = lay_out(CorridorWorld(), ["corridor-train-1"])
    odds = {"wait": 0.5, "go right": 0.5, "go left": 0.0}
    found = visits(board.graphs[0], lambda s: [odds[c] for c in s.commands], 4)
    rows = [board.graphs[0].index[place] for place in ("2", "3")]
    np.testing.assert_allclose(found[:, rows], [[1, 0], [1 / 2, 1 / 2], [1 / 4, 1 / 2], [1 / 8, 3 / 8]])
    assert found.sum() == pytest.approx(1 + 1 + 3 / 4 + 1 / 2)


@pytest.fixture(scope="module")
def replayed():
    """Walks of houses, and the same commands given to the environments."""
    world, board = keydoors()
    limited = make_world(WorldConfig(env="keydoor", max_steps=14))
    chance = mixture(board, 0.5, 14)
    task = np.repeat(np.arange(4), 8)
    walks = draw_walks(board, chance, task, 14, np.random.default_rng(0))
    played = []
    for i, number in enumerate(task):
        env, steps = limited.make(board.tasks[number]), []
        shown, _ = env.reset()
        graph, start = board.graphs[number], board.start[number]
        for row in range(walks.offsets[i], walks.offsets[i + 1]):
            state = graph.states[walks.state[row] - start]
            command = state.commands[walks.pair[row] - board.first_pair[walks.state[row]]]
            assert state.key == env.state_key()
            before = shown, env.state_key(), env.admissible()
            shown, reward, won, cut, _ = env.step(command)
            assert reward == walks.reward[row] and (won or cut) == (row + 1 == walks.offsets[i + 1])
            steps.append(Step(*before, command, (), (), (), reward, True))
        outcome = Outcome.TRUNCATED if cut else Outcome.TERMINATED
        assert cut == walks.truncated[i] and won == walks.success[i]
        played.append(
            Trajectory(env.task_id, i % 8, 0, tuple(steps), outcome, won, "", shown, env.state_key())
        )
    assert {t.success for t in played} == {True, False}
    return world, board, chance, walks, played


@pytest.mark.parametrize("key", ["exact", "observation", "history"])
@pytest.mark.parametrize("history", [0, 1, 3])
def test_walks_are_what_the_environments_play(replayed, key, history):
    """Every column of the table, and states up to their numbers, for each state key."""
    _, board, _, walks, played = replayed
    config = CreditConfig(state_key=key, key_history=history)
    expected = StepTable.from_names(played, STATE_KEYS[key](played, config))
    found = table_of(walks, *name_states(board, walks, key, history=history))
    for column in ("offsets", "group", "truncated", "success", "reward", "valid"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
    group = np.concatenate([found.group[found.trajectory], found.group])
    ours = np.concatenate([found.state, found.final_state])
    theirs = np.concatenate([expected.state, expected.final_state])
    one, other, both = (
        np.unique(np.stack([group, *names]), axis=1).shape[1] for names in ([ours], [theirs], [ours, theirs])
    )
    assert one == other == both
    for estimator in ("gagpo", "graphgpo", "gated_bepo", "hgpo"):
        credits = [assign_credit(table, CreditConfig(estimator=estimator)) for table in (found, expected)]
        np.testing.assert_allclose(credits[0].normalized, credits[1].normalized, atol=1e-12)


def test_the_truth_of_walks_is_the_oracles(replayed):
    world, board, chance, walks, played = replayed
    truth = truth_of(board, chance, 0.9, 14)
    each = dict(zip(board.tasks, policies(board, chance), strict=True))
    for task, policy in each.items():
        own = [t for t in played if t.task_id == task]
        found = values_of_steps(own, world, policy, 0.9, step_limit=14)
        rows = np.flatnonzero(
            walks.task[np.repeat(np.arange(32), np.diff(walks.offsets))] == list(each).index(task)
        )
        left = 14 - walks.time[rows]
        np.testing.assert_allclose(truth.value[left, walks.state[rows]], found.value, atol=1e-12)
        np.testing.assert_allclose(truth.advantage[left, walks.pair[rows]], found.advantage, atol=1e-12)


@pytest.mark.parametrize("env", ["keydoor", "frozenlake"])
def test_outcomes_are_those_of_the_graph_and_draws_follow_them(env):
    if env == "frozenlake":
        pytest.importorskip("gymnasium")
    world = make_world(WorldConfig(env=env, max_steps=10**6))
    tasks = world.tasks("train", 2, np.random.default_rng(5))
    board = lay_out(world, tasks, slip=0.25)
    for graph, start in zip(board.graphs, board.start, strict=True):
        pairs = slice(board.first_pair[start], board.first_pair[start + len(graph.states)])
        chance, after, reward = (
            c[pairs] for c in (board.outcome_chance, board.outcome_state, board.outcome_reward)
        )
        transition = np.zeros((len(chance), len(board.won)))
        np.add.at(transition, (np.arange(len(chance))[:, None], after), chance)
        np.testing.assert_allclose(transition.sum(1), 1)
        np.testing.assert_allclose(transition[:, start : start + len(graph.states)], graph.transition)
        np.testing.assert_allclose((chance * reward).sum(1), graph.reward, atol=1e-12)
    policy, num = some_policy(board), 4000
    walks = draw_walks(board, policy, np.repeat([0, 1], num), 9, np.random.default_rng(1))
    truth = truth_of(board, policy, 1.0, 9)
    for task, p in enumerate(truth.success):
        own = walks.success[task * num : (task + 1) * num].mean()
        assert own == pytest.approx(p, abs=4.5 * np.sqrt(p * (1 - p) / num))
    expected = [visits(g, p, 9) for g, p in zip(board.graphs, policies(board, policy), strict=True)]
    counts = np.zeros((9, board.num_states))
    np.add.at(counts, (walks.time, walks.state), 1 / num)
    np.testing.assert_allclose(counts, np.concatenate(expected, 1), atol=4.5 * 0.5 / np.sqrt(num))


def test_a_mixture_succeeds_as_often_as_wanted_in_every_task():
    _, board = keydoors()
    alike = truth_of(board, chances(board, uniform), 1.0, 20).success
    np.testing.assert_array_equal(mixture(board, None, 20), chances(board, uniform))
    for wanted in (0.1, 0.5, 0.85):
        chance = mixture(board, wanted, 20)
        found = truth_of(board, chance, 1.0, 20).success
        np.testing.assert_allclose(found, wanted, atol=1e-3)
        np.testing.assert_allclose(np.bincount(board.pair_state, chance), 1)
        assert chance.min() > 0
    assert 0.1 < alike.min() < alike.max() < 0.85, "both mixtures were needed"


def batch_gradients(board, chance, gamma, config, num_batches, rng):
    """(num_batches, P): the gradient that an estimator makes of each batch of 2 x 8 episodes."""
    truth, found = truth_of(board, chance, gamma, HORIZON), []
    for _ in range(num_batches):
        walks = draw_walks(board, chance, np.repeat([0, 1], 8), HORIZON, rng)
        table = table_of(walks, *name_states(board, walks))
        object.__setattr__(table, "critic_value", truth.value[HORIZON - walks.time, walks.state])
        said = assign_credit(table, config).normalized
        found.append(policy_gradient(said, walks.pair, chance, board.pair_state))
    return np.array(found)


@pytest.mark.parametrize("gamma", [0.6, 1.0])
@pytest.mark.parametrize("estimator", ["reinforce", "gae"])
def test_unbiased_estimators_have_the_true_gradient_on_average(estimator, gamma):
    """REINFORCE, and lam = 1 with the exact V as baseline: each coordinate within its own error."""
    board = corridors()
    chance = some_policy(board, 3)
    config = CreditConfig(estimator=estimator, gamma=gamma, lam=1.0, normalize="none")
    found = batch_gradients(board, chance, gamma, config, 1500, np.random.default_rng(4))
    true = 8 * truth_of(board, chance, gamma, HORIZON).gradient
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(0) - true) <= 4 * error + 1e-12)
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(true), "the comparison means something"


def test_an_estimator_with_its_own_return_in_the_baseline_is_not_unbiased():
    """The same comparison sees the factor 1 - 1/n of GAGPO's value, so it is no idle one."""
    board = corridors()
    chance = some_policy(board, 3)
    config = CreditConfig(gamma=1.0, lam=1.0, normalize="none")
    found = batch_gradients(board, chance, 1.0, config, 1500, np.random.default_rng(4))
    true = 8 * truth_of(board, chance, 1.0, HORIZON).gradient
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert np.max(np.abs(found.mean(0) - true) / np.maximum(error, 1e-12)) > 6
    assert np.linalg.norm(found.mean(0)) < np.linalg.norm(true)


def test_with_many_siblings_and_the_time_in_the_state_gagpo_becomes_the_truth():
    """In a world without chance lam = 0 is then Q - V itself; with few siblings it is not."""
    board = corridors()
    chance = some_policy(board, 3)
    truth, found = truth_of(board, chance, 0.9, HORIZON), []
    for num in (8, 20_000):
        walks = draw_walks(board, chance, np.repeat([0, 1], num), HORIZON, np.random.default_rng(0))
        table = table_of(walks, *name_states(board, walks, "timed"))
        said = assign_credit(table, CreditConfig(gamma=0.9, lam=0.0, normalize="none")).advantage
        true = truth.advantage[HORIZON - walks.time, walks.pair]
        found.append(correlation(said, true))
    assert found[0] < 0.95 and found[1] > 0.999
    assert np.abs(said - true).max() < 0.1


def test_a_unique_share_makes_singletons_and_noise_leaves_the_mean(replayed):
    _, board, chance, walks, _ = replayed
    rng = np.random.default_rng(0)
    for share in (0.3, 1.0):
        steps, finals = name_states(board, walks, unique_share=share, rng=rng)
        count = np.bincount(np.unique(np.concatenate([steps, finals]), return_inverse=True)[1])
        alone = steps > walks.final.max()
        assert alone.mean() == pytest.approx(share, abs=0.1)
        assert np.unique(steps[alone]).size == alone.sum() and count.max() >= 1
        np.testing.assert_array_equal(steps[~alone], walks.state[~alone])
    plain, noisy = (
        draw_walks(board, chance, np.repeat(np.arange(4), 500), 14, np.random.default_rng(1), reward_noise=x)
        for x in (0.0, 2.0)
    )
    np.testing.assert_array_equal(plain.pair, noisy.pair)
    noise = noisy.reward - plain.reward
    assert noise.std() == pytest.approx(2, rel=0.03) and abs(noise.mean()) < 4.5 * 2 / np.sqrt(len(noise))


def test_bad_input_is_named(replayed):
    world, board, _, walks, _ = replayed
    with pytest.raises(ValueError, match=r"slip: 2; expected between 0 and 1"):
        lay_out(world, board.tasks, slip=2)
    with pytest.raises(ValueError, match=r"tasks: none, or an id occurs twice"):
        lay_out(world, [board.tasks[0]] * 2)
    with pytest.raises(ValueError, match=r"success: 1\.5; expected between 0 and 1"):
        mixture(board, 1.5, 10)
    with pytest.raises(ValueError, match=r"key: 'smell'; expected one of exact"):
        name_states(board, walks, "smell")
    with pytest.raises(ValueError, match=r"rng: None"):
        name_states(board, walks, unique_share=0.5)
