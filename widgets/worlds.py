"""Worlds looked at from outside: plans, meetings and speed, as tables."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, make_world
from gagpo.envs.meet import find_meeting
from widgets.session import Session, visible
from widgets.tables import Table, Tables

WALK_STEPS = 50  # of a random walk whose speed is measured


def plan_table(env: Env, seed: int = 0) -> Table:
    """A shortest plan from the start (else the expert's), played: a row a step."""
    session = Session(env, seed)
    plan = session.shortest_plan()
    ending = plan[-1].ending if plan else "no plan is known"
    caption = f"{visible(env.goal)} A plan of {len(plan)} commands: {ending or 'it leads nowhere'}."
    return session.table(caption, plan)


def meeting_tables(env: Env, seed: int = 0) -> Tables:
    """Two ways into one state, and what is seen of it at the end of each."""
    meeting = find_meeting(env, seed=seed)
    if meeting is None:
        return Tables((Table("No two ways into one state were found.", (), ()),))
    first, second = meeting
    commands = zip_longest(first.commands, second.commands, fillvalue="")
    rows = [(str(step), *map(visible, pair)) for step, pair in enumerate(commands, 1)]
    ends = [
        (name, *(visible(way[field][-1]) for way in meeting))
        for name, field in (("state key", 2), ("observation", 1))
    ]
    alike = "are equal too" if meeting.seen_alike else "differ, although the state is the same"
    met = f"Where they meet: the state keys are equal, the observations {alike}."
    columns = ("first way", "second way")
    return Tables((
        Table("Two ways into one state", ("step", *columns), tuple(rows)),
        Table(met, ("", *columns), tuple(ends)),
    ))  # fmt: skip


def speed_table(configs: Sequence[WorldConfig], *, seconds: float = 0.3, num_tasks: int = 20) -> Table:
    """Steps a second of random play in each world, on this machine and in this process.

    A step is a random admissible command, what it answers, the new admissible commands and the
    state key. A world that cannot be made here gets a row that says why.
    """
    rows = []
    for config in configs:
        try:
            rows.append((config.env, *_measured(config, seconds, num_tasks), ""))
        except ValueError as error:
            rows.append((config.env, "", "", "", visible(str(error))))
    columns = ("world", "steps a second", "ms to make a task", "expert's answers a second", "note")
    return Table(f"Speed: random play of {seconds:g} s each", columns, tuple(rows))


def _measured(config: WorldConfig, seconds: float, num_tasks: int) -> tuple[str, str, str]:
    world, rng = make_world(config), random.Random(0)
    ids = world.tasks("train", num_tasks, np.random.default_rng(0))
    start = time.perf_counter()
    envs = [world.make(task_id) for task_id in ids]
    making = (time.perf_counter() - start) / len(envs)
    num_steps, spent, asked, thought = 0, 0.0, 0, 0.0
    while spent < seconds:
        env = envs[asked % len(envs)]
        start = time.perf_counter()
        env.reset(seed=asked)
        for _ in range(WALK_STEPS):
            _, _, terminated, truncated, _ = env.step(rng.choice(env.admissible()))
            env.state_key()
            num_steps += 1
            if terminated or truncated:
                break
        spent += time.perf_counter() - start
        env.reset(seed=asked)
        start = time.perf_counter()
        env.expert()
        asked, thought = asked + 1, thought + time.perf_counter() - start
    return f"{num_steps / spent:,.0f}", f"{1e3 * making:.2f}", f"{asked / thought:,.0f}"
