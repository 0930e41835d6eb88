"""Monte-Carlo returns: rollouts that fork from a snapshot of any world, and what their mean tells.

A fork is a state and, for Q, the command that is given there first; a policy goes on from it to the
end of the episode, which the world's own step limit can be. Every draw is a function of the seed,
the fork and the number of the rollout, so results depend neither on the order of the work nor on
the number of processes, and what a file has kept need not be played again.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from gagpo.envs.base import Env, World
from gagpo.envs.exact import Policy, check_gamma, probabilities, state_of
from gagpo.envs.worker import WorkerWorld
from gagpo.forks_file import ForksFile

CHUNK = 8  # forks of one task that a process plays before it answers
INTERVALS = ("normal", "bootstrap")


class Fork(NamedTuple):
    """Where rollouts start. `num_steps` steps were taken before; `command` None lets the policy choose."""

    task_id: str
    state_key: str
    num_steps: int
    observation: str
    command: str | None
    snapshot: Hashable

    @property
    def name(self) -> str:
        """Its identity, as JSON. The snapshot is left out: in a world of chance it holds draws to come."""
        seen = blake2b(self.observation.encode(), digest_size=8).hexdigest()
        return json.dumps([self.task_id, self.state_key, self.num_steps, seen, self.command])


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the truth is sampled, and how sure its intervals are.

    interval "normal" is mean ± z s / sqrt(n), with s^2 over n - 1. "bootstrap" takes the quantiles
    of the means of `num_resamples` samples drawn from the rollouts with replacement. Both are
    approximate, and too short where few rollouts met what is rare: of returns that are all equal
    both are a point. `policy_name` is kept in the file: rollouts of one name are taken to be of one
    policy. `start_method` is multiprocessing's; under "spawn" and "forkserver" world and policy must
    pickle, and under "fork" the process must not hold running threads (torch starts some).
    """

    num_rollouts: int = 100
    seed: int = 0
    interval: str = "normal"
    confidence: float = 0.95
    num_resamples: int = 1000
    path: str | Path | None = None
    policy_name: str = ""
    num_processes: int = 1
    start_method: str = "spawn"

    def __post_init__(self) -> None:
        for name, least in (("num_rollouts", 2), ("seed", 0), ("num_resamples", 2), ("num_processes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)!r}; expected at least {least}")
        if self.interval not in INTERVALS:
            raise ValueError(f"interval: {self.interval!r}; expected one of {', '.join(INTERVALS)}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence: {self.confidence!r}; expected between 0 and 1")
        if self.start_method not in multiprocessing.get_all_start_methods():
            known = ", ".join(multiprocessing.get_all_start_methods())
            raise ValueError(f"start_method: {self.start_method!r}; expected one of {known}")


class Estimate(NamedTuple):
    """A mean and its confidence interval."""

    mean: float
    low: float
    high: float


def forks_here(env: Env, observation: str, num_steps: int) -> list[Fork]:
    """The forks of the state that `env` is in: first the policy's own, then one for each command."""
    commands = (None, *env.admissible())
    place = (env.task_id, env.state_key(), num_steps, observation)
    return [Fork(*place, command, env.snapshot()) for command in commands]


def fork_returns(
    forks: Sequence[Fork], world: World, policy: Policy, gamma: float, sampling: Sampling
) -> dict[str, np.ndarray]:
    """{name of a fork: (num_rollouts,) float64, the discounted returns from there on}.

    Equal names are played once. With `sampling.path`, what is in that file is not played again, and
    what is played is added to it as it comes. Raises ValueError where the file is of another
    gamma, seed, number of rollouts or policy name.
    """
    check_gamma(gamma)
    if isinstance(world, WorkerWorld):
        raise ValueError("world: a WorkerWorld hides what is chance; expected the world that it plays")
    settings = {"gamma": gamma, "seed": sampling.seed, "num_rollouts": sampling.num_rollouts}
    settings |= {"policy_name": sampling.policy_name}
    wanted = {fork.name: fork for fork in forks}
    with ForksFile(sampling.path, settings) as file:
        found = {name: file.known[name] for name in wanted if name in file.known}
        chunks = list(_chunks([fork for name, fork in wanted.items() if name not in found]))
        work = (world, policy, gamma, sampling.seed, sampling.num_rollouts)
        for played in _played(chunks, work, sampling):
            file.add(played)
            found |= played
    return found


def estimate(samples: Sequence[np.ndarray], sampling: Sampling, name: str = "") -> Estimate:
    """The mean of the first sample, less that of the second where there are two.

    The samples are independent. `name` decides the draws of a bootstrap, together with the seed.
    """
    signs = (1.0, -1.0)[: len(samples)]
    mean = sum(sign * float(x.mean()) for sign, x in zip(signs, samples, strict=True))
    tail = (1 - sampling.confidence) / 2
    if sampling.interval == "normal":
        error = math.sqrt(sum(float(x.var(ddof=1)) / len(x) for x in samples))
        half = NormalDist().inv_cdf(1 - tail) * error
        return Estimate(mean, mean - half, mean + half)
    rng = np.random.default_rng([sampling.seed, *_words(f"bootstrap {name}")])
    means = np.zeros(sampling.num_resamples)
    for sign, x in zip(signs, samples, strict=True):
        means += sign * x[rng.integers(len(x), size=(sampling.num_resamples, len(x)))].mean(1)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(mean, float(low), float(high))


def rollout_return(env: Env, fork: Fork, policy: Policy, gamma: float, seed: Sequence[int]) -> float:
    """The discounted sum of the rewards from `fork` on; its first reward counts whole.

    In a world of chance the draws after the fork are new ones, which follow from `seed`.
    """
    rng = np.random.default_rng(seed)
    env.restore(fork.snapshot)
    if hasattr(env, "reseed"):
        env.reseed(int(rng.integers(2**62)))
    elif hasattr(env, "outcomes"):
        raise ValueError(f"env: task {env.task_id!r} has chance and no `reseed`; every fork would go alike")
    total, discount, observation, command = 0.0, 1.0, fork.observation, fork.command
    while True:
        if command is None:
            state = state_of(env, observation)
            reached = np.cumsum(probabilities(state, policy))
            command = state.commands[int(np.searchsorted(reached, rng.random() * reached[-1], "right"))]
        observation, reward, terminated, truncated, _ = env.step(command)
        total, discount, command = total + discount * reward, discount * gamma, None
        if terminated or truncated:
            return total


Work = tuple[World, Policy, float, int, int]  # world, policy, gamma, seed, number of rollouts
_work: list[Work] = []  # of a process that plays for another


def _begin(work: Work) -> None:
    _work[:] = [work]


def _play_here(chunk: Sequence[Fork]) -> dict[str, np.ndarray]:
    return _play(chunk, _work[0])


def _play(chunk: Sequence[Fork], work: Work) -> dict[str, np.ndarray]:
    """Every rollout of forks of one task."""
    world, policy, gamma, seed, num_rollouts = work
    env = world.make(chunk[0].task_id)
    found = {}
    for fork in chunk:
        own = (seed, *_words(fork.name))
        returns = [rollout_return(env, fork, policy, gamma, (*own, i)) for i in range(num_rollouts)]
        found[fork.name] = np.array(returns)
    return found


def _played(
    chunks: Sequence[Sequence[Fork]], work: Work, sampling: Sampling
) -> Iterator[dict[str, np.ndarray]]:
    """What each chunk yields, as it is done; the first failure ends the rest."""
    num = min(sampling.num_processes, len(chunks))
    if num <= 1:
        yield from (_play(chunk, work) for chunk in chunks)
        return
    context = multiprocessing.get_context(sampling.start_method)
    with ProcessPoolExecutor(num, context, _begin, (work,)) as pool:
        try:
            for future in as_completed([pool.submit(_play_here, chunk) for chunk in chunks]):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _chunks(forks: Sequence[Fork]) -> Iterator[list[Fork]]:
    for _, same in groupby(sorted(forks, key=lambda fork: fork.task_id), lambda fork: fork.task_id):
        own = list(same)
        yield from (own[start : start + CHUNK] for start in range(0, len(own), CHUNK))


def _words(text: str) -> list[int]:
    """Four numbers that stand for a text, for seeding."""
    digest = blake2b(text.encode(), digest_size=16).digest()
    return [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4)]
