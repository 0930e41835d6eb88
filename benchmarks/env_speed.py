"""Speed of the worlds, with a correctness gate first.

    python benchmarks/env_speed.py [GAMES]

GAMES is a folder or packed file of official games. A step is: a random admissible command, the
observation, the new admissible commands, and the state key, in one process.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import World, make_world
from gagpo.envs.game import Game


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", nargs="?", help="folder or packed file of official games")
    games = parser.parse_args().games
    measure("generated, 8 receptacles, 6 objects", WorldConfig())
    measure("generated, 20 receptacles, 30 objects", WorldConfig(num_receptacles=20, num_objects=30))
    if games is not None:
        measure("official", WorldConfig(env="alfworld", games=games))


def measure(name: str, config: WorldConfig) -> None:
    """Print the load time and the rates of one world."""
    start = time.perf_counter()
    world = make_world(config)
    listed = time.perf_counter() - start
    ids = world.tasks("train", 200, np.random.default_rng(0))
    start = time.perf_counter()
    envs = [world.make(task_id) for task_id in ids]
    load = (time.perf_counter() - start) / len(ids)
    check(envs)
    walks = [walk(env, random.Random(i)) for i, env in enumerate(envs)]
    num_steps = sum(map(len, walks))
    replayed = rate(lambda: [replay(env, steps) for env, steps in zip(envs, walks, strict=True)], num_steps)
    print(f"{name}: {len(ids)} games listed in {listed:.3f} s, {1e3 * load:.2f} ms to make one")
    print(
        f"  {replayed:,.0f} steps/s, {rate(lambda: plans(world, ids), len(ids)):,.0f} plans/s from the start"
    )


def check(envs: Sequence[Game]) -> None:
    """The gate: every plan wins exactly at its end, and a restored game repeats itself."""
    for env in envs:
        env.max_steps = 10_000
        env.reset()
        start, plan = env.snapshot(), env.plan()
        first = [env.step(command) for command in plan or ()]
        ends = [terminated for _, _, terminated, _, _ in first]
        if not ends or ends != [False] * (len(ends) - 1) + [True]:
            raise SystemExit(f"{env.task_id}: the plan {plan} does not win")
        env.restore(start)
        if [env.step(command) for command in plan or ()] != first:
            raise SystemExit(f"{env.task_id}: a restored game went another way")


def walk(env: Game, rng: random.Random, num_steps: int = 50) -> list[str]:
    """A random walk of admissible commands, which stops at the goal."""
    env.reset()
    commands: list[str] = []
    terminated = False
    while not terminated and len(commands) < num_steps:
        commands.append(rng.choice(env.admissible()))
        terminated = env.step(commands[-1])[2]
    return commands


def replay(env: Game, commands: Sequence[str]) -> None:
    env.reset()
    for command in commands:
        env.step(command)
        env.admissible()
        env.state_key()


def plans(world: World, ids: Sequence[str]) -> None:
    for task_id in ids:
        world.make(task_id).expert()


def rate(work: Callable[[], object], count: int) -> float:
    """How often a second: the median of five runs."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return count / statistics.median(seconds)


if __name__ == "__main__":
    main()
