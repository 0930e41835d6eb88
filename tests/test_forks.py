"""Rollouts that fork: against exact values, and whatever must not change them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from corridor import Corridor, CorridorWorld
from played import half_good, play

from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.exact import uniform
from gagpo.envs.tabular import TabularText
from gagpo.envs.worker import WorkerWorld
from gagpo.envs.wrappers import StepLimit
from gagpo.forks import Estimate, Fork, Sampling, estimate, fork_returns, forks_here
from gagpo.oracle import sampled_values, sampled_values_of_steps, values_of_steps

GAMMA, LIMIT = 0.9, {"keydoor": 12, "frozenlake": 40}
TASK = "corridor-train-1"


def small(env: str, max_steps: int | None = None):
    if env == "frozenlake":
        pytest.importorskip("gymnasium")
    return make_world(WorldConfig(env=env, max_steps=max_steps or LIMIT[env]))


def recorded(env: str, num_tasks: int = 3, num_siblings: int = 2):
    """(world, policy, trajectories with invalid actions, their exact values)"""
    world, plenty = small(env), small(env, 100)
    tasks = plenty.tasks("train", num_tasks, np.random.default_rng(1))
    policy = half_good(plenty, tasks, 0.6)
    played = [play(world, t, sibling, policy, 0.1) for t in tasks for sibling in range(num_siblings)]
    return world, policy, played, values_of_steps(played, plenty, policy, GAMMA, step_limit=LIMIT[env])


@pytest.fixture(scope="module", params=["keydoor", "frozenlake"])
def sampled(request, tmp_path_factory):
    """(what samples the values of recorded steps under other settings, the exact values)"""
    world, policy, played, truth = recorded(request.param, {"keydoor": 4, "frozenlake": 2}[request.param])
    sampling = Sampling(num_rollouts=120, seed=5, path=tmp_path_factory.mktemp("forks") / "forks.jsonl")

    def sample(**settings):
        return sampled_values_of_steps(played, world, policy, GAMMA, replace(sampling, **settings))

    return sample, truth


def columns(found, truth, *names: str) -> np.ndarray:
    """(mean, low, high, truth) of each row, none twice: equal steps share their rollouts. Only values
    above 0.8 of 10: of what is rarer 120 rollouts may see nothing, and their spread is then 0. What
    is certain (a step before the goal) is met exactly, and left out."""
    rows = {
        (getattr(found, name)[r], *getattr(found, f"{name}_interval")[r], getattr(truth, name)[r])
        for name in names
        for r in np.flatnonzero((truth.value > 0.8) & (truth.q > 0.8))
    }
    mean, low, high, exact = found = np.array(sorted(rows)).T
    np.testing.assert_allclose(mean[low == high], exact[low == high], 1e-12)
    return found[:, low < high]


def test_means_are_unbiased(sampled):
    """z = (mean - truth) / standard error is about normal; bounds of 4 deviations."""
    sample, truth = sampled
    found = sample()
    np.testing.assert_allclose(found.advantage, found.q - found.value, atol=1e-12)
    for names in (("value", "q"), ("advantage",)):
        mean, _, high, exact = columns(found, truth, *names)
        assert len(mean) > 30
        error = (high - mean) / NormalDist().inv_cdf(0.975)
        z = (mean - exact) / error
        assert abs(z.mean()) < 4 / math.sqrt(len(z)) and np.abs(z).max() < 4
        assert abs((z**2).mean() - 1) < 4 * math.sqrt(2 / len(z))


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_intervals_cover_the_exact_values_at_about_their_rate(sampled, interval: str, confidence: float):
    """Within 4 deviations of a share of that many."""
    sample, truth = sampled
    found = sample(interval=interval, confidence=confidence, num_resamples=500)
    _, low, high, exact = columns(found, truth, "value", "q")
    inside, num = ((low <= exact) & (exact <= high)).mean(), len(exact)
    assert num > 60
    assert abs(inside - confidence) < 4 * math.sqrt(confidence * (1 - confidence) / num), f"{inside} of {num}"


def test_without_chance_and_choice_one_rollout_is_the_truth():
    """The corridor, always to the right: two steps from the start, V = gamma."""
    world, env = CorridorWorld(), Corridor(TASK)

    def right(state):
        assert state.goal == "reach place 4" and state.observation.startswith("you are at place")
        return [float(command == "go right") for command in state.commands]

    observation, _ = env.reset()
    found = sampled_values(env, observation, world, right, GAMMA, Sampling(num_rollouts=2), num_steps=0)
    assert found.value == Estimate(GAMMA, GAMMA, GAMMA)
    assert {command: q.mean for command, q in found.q.items()} == pytest.approx(
        {"go left": GAMMA**3, "go right": GAMMA, "wait": GAMMA**2}
    )
    assert found.advantage["go left"].mean == pytest.approx(GAMMA**3 - GAMMA)
    env.place, env.num_steps = 3, 7  # one step is left
    late = sampled_values(env, "you are at place 3.", world, right, GAMMA, Sampling(), num_steps=7)
    assert late.value.mean == 1 and late.q["wait"].mean == 0 and env.snapshot() == (3, 7)


def test_intervals_by_hand():
    """Returns 0, 0, 0, 4: mean 1, s^2 = 4, so 1 ± 1.96 * 2 / sqrt(4)."""
    returns = np.array([0.0, 0.0, 0.0, 4.0])
    found = estimate([returns], Sampling())
    assert found == pytest.approx((1, 1 - 1.959964, 1 + 1.959964), abs=1e-6)
    two = estimate([returns, returns / 2], Sampling())  # errors 1 and 1/2
    assert two == pytest.approx(
        (0.5, 0.5 - 1.959964 * math.sqrt(1.25), 0.5 + 1.959964 * math.sqrt(1.25)), abs=1e-6
    )
    # Resampled means are 0 to 4 with the chances of k of 4 at 1/4: 0 has .316, 3 or more .051.
    drawn = estimate([returns], Sampling(interval="bootstrap", confidence=0.8, num_resamples=4000))
    assert drawn == (1, 0, 2)
    wide = estimate([returns], Sampling(interval="bootstrap", confidence=0.95, num_resamples=4000))
    assert wide == (1, 0, 3)
    assert estimate([np.ones(5)], Sampling(interval="bootstrap")) == (1, 1, 1)


def lake_forks() -> tuple:
    world = small("frozenlake")
    env = world.make(world.tasks("train", 1, np.random.default_rng(0))[0])
    observation, _ = env.reset(seed=3)
    return world, env, forks_here(env, observation, 0)


def test_after_a_fork_the_draws_are_new_ones():
    """The snapshot holds the draws to come: played from it as it is, a command goes one way only."""
    _, env, (fork, *_) = lake_forks()

    def after(seed: int | None) -> str:
        env.restore(fork.snapshot)
        if seed is not None:
            env.reseed(seed)
        env.step("go east")
        return env.state_key()

    assert len({after(None) for _ in range(20)}) == 1
    env.restore(fork.snapshot)
    chances: dict[str, float] = {}
    for outcome in env.outcomes("go east"):
        key = str(outcome.snapshot[0])
        chances[key] = chances.get(key, 0.0) + outcome.probability
    seen = [after(seed) for seed in range(600)]
    assert len(chances) > 1 and set(seen) == set(chances)
    for key, chance in chances.items():
        assert abs(seen.count(key) / 600 - chance) < 4 * math.sqrt(chance * (1 - chance) / 600)
    assert after(5) == after(5)
    wrapped = StepLimit(env, 5)
    for seed in range(20):
        wrapped.restore((fork.snapshot, 0))
        wrapped.reseed(seed)
        wrapped.step("go east")
        assert wrapped.state_key() == seen[seed]


def test_a_world_of_chance_that_cannot_draw_anew_is_refused(monkeypatch):
    world, _, forks = lake_forks()
    monkeypatch.delattr(TabularText, "reseed")
    with pytest.raises(ValueError, match="has chance and no `reseed`"):
        fork_returns(forks, world, uniform, GAMMA, Sampling())


def test_a_world_behind_processes_is_refused():
    world = WorkerWorld(WorldConfig(env="keydoor"), time_limit_s=5)
    with pytest.raises(ValueError, match="a WorkerWorld hides what is chance"):
        fork_returns([], world, uniform, GAMMA, Sampling())


class Counting:
    """The uniform policy, which counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, state):
        self.asked += 1
        return uniform(state)


def same(one: dict, other: dict) -> bool:
    return list(one) == list(other) and all(np.array_equal(one[k], other[k]) for k in one)


def key_forks():
    world = small("keydoor")
    forks = []
    for task in world.tasks("train", 3, np.random.default_rng(0)):
        env = world.make(task)
        forks += forks_here(env, env.reset()[0], 0)
    return world, forks


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_processes_and_order_do_not_change_a_return(start_method: str, tmp_path):
    world, forks = key_forks()
    alone = fork_returns(forks, world, uniform, GAMMA, Sampling(num_rollouts=6))
    assert len({len(set(r)) for r in alone.values()}) > 1, "some forks have returns that vary"
    many = Sampling(num_rollouts=6, num_processes=2, start_method=start_method, path=tmp_path / "f.jsonl")
    together = fork_returns(forks[::-1], world, uniform, GAMMA, many)
    assert same(alone, {name: together[name] for name in alone})
    again = fork_returns(forks, world, Counting(), GAMMA, many)
    assert same(alone, {name: again[name] for name in alone})
    other = fork_returns(forks, world, uniform, GAMMA, Sampling(num_rollouts=6, seed=1))
    assert not same(alone, other)


def test_a_torn_file_goes_on_to_the_same_end(tmp_path):
    """Cut at every place where a kill could have cut it: nothing whole is played twice."""
    world, forks = key_forks()
    path = tmp_path / "deep" / "forks.jsonl"
    sampling = Sampling(num_rollouts=3, path=path)
    whole = fork_returns(forks, world, uniform, GAMMA, sampling)
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    assert len(lines) == 1 + len(forks) and json.loads(lines[0])["gamma"] == GAMMA
    per_fork = {}
    for fork in forks:
        policy = Counting()
        fork_returns([fork], world, policy, GAMMA, replace(sampling, path=None))
        per_fork[fork.name] = policy.asked
    for cut in (0, 5, len(lines[0]), len(lines[0]) + 7, len(text) - 1, len(text) - 40, len(text)):
        path.write_bytes(text[:cut])
        kept = text[:cut].count(b"\n")
        missing = [json.loads(line)["fork"] for line in lines[max(kept, 1) :]]
        policy = Counting()
        again = fork_returns(forks, world, policy, GAMMA, sampling)
        assert same({name: again[name] for name in whole}, whole) and path.read_bytes() == text
        assert policy.asked == sum(per_fork[name] for name in missing)


def test_a_file_of_other_settings_or_with_a_damaged_line_is_refused(tmp_path):
    world, forks = key_forks()
    sampling = Sampling(num_rollouts=3, path=tmp_path / "forks.jsonl")
    fork_returns(forks[:2], world, uniform, GAMMA, sampling)
    for other, gamma in (
        (replace(sampling, seed=1), GAMMA),
        (replace(sampling, num_rollouts=4), GAMMA),
        (replace(sampling, policy_name="other"), GAMMA),
        (sampling, 0.5),
    ):
        with pytest.raises(ValueError, match=r"path: .*forks\.jsonl begins with .*expected"):
            fork_returns(forks[:2], world, uniform, gamma, other)
    text = sampling.path.read_text()
    for bad in ("nonsense", '{"fork": 3, "returns": [1, 2, 3]}', '{"fork": "x", "returns": [1, 2]}',
                '{"fork": "x", "returns": [1, 2, NaN]}', "[]"):  # fmt: skip
        sampling.path.write_text(f"{text}{bad}\n")
        with pytest.raises(ValueError, match="line 4 is not a fork with 3 finite returns"):
            fork_returns(forks[:2], world, uniform, GAMMA, sampling)


class Failing(CorridorWorld):
    """Its environments break; at module level, so that a process can be given it."""

    def make(self, task_id):
        raise RuntimeError(f"no {task_id}")


@pytest.mark.parametrize("num_processes", [1, 2])
def test_what_fails_is_raised_and_what_was_played_is_kept(num_processes: int, tmp_path):
    forks = [Fork(f"corridor-train-{i}", "2", 0, "", None, (2, 0)) for i in (1, 3)]
    sampling = Sampling(num_rollouts=2, path=tmp_path / "f", num_processes=num_processes, start_method="fork")
    good = fork_returns(forks[:1], CorridorWorld(), uniform, GAMMA, sampling)
    with pytest.raises(RuntimeError, match="no corridor-train-3"):
        fork_returns(forks, Failing(), uniform, GAMMA, sampling)
    assert same(fork_returns(forks[:1], Failing(), uniform, GAMMA, sampling), good)


def test_a_recording_that_the_world_does_not_play_again_is_refused():
    world, policy, played, _ = recorded("keydoor", 1, 1)
    steps = list(played[0].steps)
    steps[1] = replace(steps[1], state_key="elsewhere")
    with pytest.raises(ValueError, match=r"step 1: played again it is .*, not the recorded 'elsewhere'"):
        sampled_values_of_steps([replace(played[0], steps=tuple(steps))], world, policy, GAMMA)


def test_bad_settings_are_named():
    for bad, message in (
        ({"num_rollouts": 1}, "num_rollouts: 1; expected at least 2"),
        ({"interval": "exact"}, "interval: 'exact'; expected one of normal, bootstrap"),
        ({"confidence": 1.0}, r"confidence: 1\.0; expected between"),
        ({"start_method": "thread"}, "start_method: 'thread'; expected one of"),
    ):
        with pytest.raises(ValueError, match=message):
            Sampling(**bad)
