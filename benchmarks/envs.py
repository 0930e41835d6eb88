"""Speed and memory of every built-in world, with a correctness gate first.

    python benchmarks/envs.py [GAMES] [--webshop ORIGINAL]

GAMES is a folder or packed file of official games. Where TextWorld is installed too (`pip install
textworld`, with its planning library) and GAMES is a folder, its games are played there as well, by
the same commands, and the answers must be ours. ORIGINAL is a checkout of WebShop, which is played
beside ours where this Python has what `tests/record_webshop.py` asks for. One process, wall-clock
time, medians of five runs (one run of TextWorld and of WebShop: they are slow).

    make      ms from a task id to an environment that was not made before
    reset     us
    steps/s   random admissible commands; a step is the observation, the new admissible commands and
              the state key
    fork      us to take a snapshot and to go back to it
    distance  ms for the exact distance to the goal from a state of a random walk; "-": it has none
    task kB   memory of an environment of a new task, with what its siblings share
    env kB    memory of one more environment of the same task
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, World, make_world
from gagpo.envs.check import check_world
from gagpo.envs.official import GAME_FILE

NUM_TASKS, NUM_STEPS, NUM_INSTANCES = 60, 50, 200
MAX_STEPS = 300  # more than any walk and any expert takes here
COLUMNS = ("make ms", "reset us", "steps/s", "fork us", "distance ms", "task kB", "env kB")


def worlds(games: str | None) -> dict[str, WorldConfig]:
    """Row -> the settings of its world; a new world is one line."""
    rows = {
        "household 8, 6": WorldConfig(max_steps=MAX_STEPS),
        "household 20, 30": WorldConfig(num_receptacles=20, num_objects=30, max_steps=MAX_STEPS),
        "keydoor": WorldConfig(env="keydoor", max_steps=MAX_STEPS),
        "frozenlake": WorldConfig(env="frozenlake", max_steps=MAX_STEPS),
        "minigrid": WorldConfig(env="minigrid", max_steps=MAX_STEPS),
        "webshop": WorldConfig(env="webshop", max_steps=MAX_STEPS),
    }
    if games is not None:
        rows["official"] = WorldConfig(env="alfworld", games=games, max_steps=MAX_STEPS)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", nargs="?", help="folder or packed file of official games")
    parser.add_argument("--webshop", type=Path, help="a checkout of the original WebShop")
    arguments = parser.parse_args()
    games = arguments.games
    table: dict[str, list[str]] = {}
    for name, config in worlds(games).items():
        try:
            world = make_world(config)
        except ValueError as error:
            print(f"{name} is left out: {error}")
            continue
        gate(name, world)
        table[name] = measure(world)
    print(f"{'receptacles, objects' if table else '':<20}" + "".join(f"{column:>13}" for column in COLUMNS))
    for name, numbers in table.items():
        print(f"{name:<20}" + "".join(f"{number:>13}" for number in numbers))
    if games is not None:
        print(beside_textworld(games))
    if arguments.webshop is not None:
        print(beside_webshop(arguments.webshop.resolve()))


def gate(name: str, world: World) -> None:
    """The world keeps its contract; experts win, where chance does not prevent it, and distances
    are no longer than what experts need, 0 at the goal only."""
    check_world(world)
    for task_id in draw(world, 10, seed=1):
        env = world.make(task_id)
        env.reset(seed=0)
        distances, ended, won = [], False, False
        while not ended:
            distances.append(env.distance() if hasattr(env, "distance") else 0)
            _, _, terminated, truncated, info = env.step(env.expert() or "")
            ended, won = terminated or truncated, info["won"]
        if not won and not hasattr(env, "outcomes"):
            raise SystemExit(f"{name}: the expert does not win {task_id}")
        if any(d > len(distances) - i or d < 1 for i, d in enumerate(distances)) and hasattr(env, "distance"):
            raise SystemExit(f"{name}: {task_id} has distances {distances} on the expert's way")


def measure(world: World) -> list[str]:
    """The numbers of one row."""
    ids = draw(world, NUM_TASKS, seed=0)
    forget()
    start = time.perf_counter()
    envs = [world.make(task_id) for task_id in ids]
    make = (time.perf_counter() - start) / len(ids)
    walks = [walk(env, random.Random(i)) for i, env in enumerate(envs)]
    replays = seconds(lambda: [replay(env, steps) for env, steps in zip(envs, walks, strict=True)])
    resets = seconds(lambda: [env.reset(seed=0) for env in envs])
    for env, steps in zip(envs, walks, strict=True):
        play(env, steps[: len(steps) // 2])
    forks = seconds(lambda: [env.restore(env.snapshot()) for env in envs])
    distance = "-"
    if hasattr(envs[0], "distance"):
        distance = f"{1e3 * seconds(lambda: [env.distance() for env in envs]) / len(envs):.2f}"
    task_kb, env_kb = kilobytes(world, ids), kilobytes(world, ids[:1] * NUM_INSTANCES)
    return [
        f"{1e3 * make:.2f}",
        f"{1e6 * resets / len(envs):.1f}",
        f"{sum(map(len, walks)) / replays:,.0f}",
        f"{1e6 * forks / len(envs):.1f}",
        distance,
        f"{task_kb:.1f}",
        f"{env_kb:.1f}",
    ]


def draw(world: World, num: int, seed: int) -> list[str]:
    return world.tasks("train", num, np.random.default_rng(seed))


def walk(env: Env, rng: random.Random) -> list[str]:
    """A random walk of admissible commands, which stops at the end of the task."""
    env.reset(seed=0)
    commands: list[str] = []
    ended = False
    while not ended and len(commands) < NUM_STEPS:
        commands.append(rng.choice(env.admissible()))
        _, _, terminated, truncated, _ = env.step(commands[-1])
        ended = terminated or truncated
    return commands


def replay(env: Env, commands: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The observation and the admissible commands after each step."""
    env.reset(seed=0)
    seen = []
    for command in commands:
        observation = env.step(command)[0]
        seen.append((observation, env.admissible()))
        env.state_key()
    return seen


def play(env: Env, commands: Iterable[str]) -> None:
    env.reset(seed=0)
    for command in commands:
        env.step(command)


def kilobytes(world: World, ids: Sequence[str]) -> float:
    """Memory that Python's allocators give for one environment, after its reset and first step."""
    world.make(ids[0])  # so that no import is counted
    forget()
    tracemalloc.start()
    envs = []
    for task_id in ids:
        envs.append(world.make(task_id))
        play(envs[-1], envs[-1].admissible()[:1])
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(ids) / 1000


def forget() -> None:
    """Empty the caches of the worlds."""
    for name, module in list(sys.modules.items()):
        for function in vars(module).values() if name.startswith("gagpo.envs.") else ():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


def seconds(work: Callable[[], object]) -> float:
    """The median of five runs."""
    runs = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        runs.append(time.perf_counter() - start)
    return statistics.median(runs)


def beside_textworld(games: str) -> str:
    """Our steps a second and TextWorld's, on the same commands of the same games."""
    if not all(find_spec(module) for module in ("textworld", "fast_downward")):
        return "TextWorld is left out: it is not installed, or without its planning library"
    if not any(Path(games).rglob(GAME_FILE)):
        return f"TextWorld is left out: {games} is no folder with game files"
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from textworld_standin import load

    world: Any = make_world(WorldConfig(env="alfworld", games=games, max_steps=MAX_STEPS))
    ids = draw(world, 4, seed=0)
    forget()
    ours, make = timed(lambda: [world.make(task_id) for task_id in ids])
    theirs, load_s = timed(lambda: [load(world._source(task_id).file) for task_id in ids])
    walks = [walk(env, random.Random(i))[:25] for i, env in enumerate(ours)]
    here, play_s = timed(lambda: [replay(*pair) for pair in zip(ours, walks, strict=True)])
    there, slow_s = timed(lambda: [replay_textworld(*pair) for pair in zip(theirs, walks, strict=True)])
    if here != there:
        raise SystemExit("TextWorld answers otherwise than our rules")
    num = sum(map(len, walks))
    return (
        f"TextWorld beside ours, {len(ids)} official games, {num} steps, the same answers:\n"
        f"  ours       {1e3 * make / len(ids):8.2f} ms to make, {num / play_s:9,.1f} steps/s with resets\n"
        f"  TextWorld  {1e3 * load_s / len(ids):8.2f} ms to make, {num / slow_s:9,.1f} steps/s with resets"
    )


def beside_webshop(original: Path) -> str:
    """Our steps a second and the original WebShop's, in the same episodes; `replay` compares all answers."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import record_webshop
    import webshop_replay

    catalogue = record_webshop.make_catalogue(num_products=240, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        text_env = record_webshop.open_original(original, Path(folder), catalogue)
        random.seed(0)
        server = text_env.SimServer("", str(Path(folder, "products.json")), human_goals=True)
        there, slow_s = timed(
            lambda: [record_webshop.episode(text_env, server, "text", number, 0) for number in range(20)]
        )
    shop = webshop_replay.open_shop(catalogue, 0, True, "text", record_webshop.nouns(catalogue))
    _, play_s = timed(lambda: [webshop_replay.replay(shop, episode, "here") for episode in there])
    num = sum(len(episode["steps"]) for episode in there)
    return (
        f"The original WebShop beside ours, {num} steps, the same answers:\n"
        f"  ours      {num / play_s:9,.1f} steps/s with resets\n"
        f"  original  {num / slow_s:9,.1f} steps/s with resets"
    )


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the seconds it takes."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def replay_textworld(env: Any, commands: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    env.reset()
    seen = []
    for command in commands:
        state, _, _ = env.step(command)
        seen.append((state.feedback, tuple(state["admissible_commands"])))
    return seen


if __name__ == "__main__":
    main()
