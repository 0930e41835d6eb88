"""Gymnasium's tabular environments as text worlds, and FrozenLake-v1 as one that can be trained on.

Needs the optional package gymnasium, which is imported only when a world is made. Any environment
with a transition table `P` and a state number `s` (FrozenLake, CliffWalking, Taxi) is played
through a `Rendering`, a few lines that put its numbers into words.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import eq
from types import ModuleType
from typing import Any

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.exact import Outcome, enumerate_states, optimal
from gagpo.envs.seeded import SeededWorld, first_of_split

NOTHING_HAPPENS = "Nothing happens."
EXPERT_GAMMA = 0.99
LAKE_SIDE, ICE_SHARE = 4, 0.8
LAKE_COMMANDS = ("go west", "go south", "go east", "go north")  # in the order of the action numbers
LAKE_GOAL = "reach the goal at row {row} column {column}."
NEXT = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
TILES = {"S": "ice", "F": "ice", "H": "a hole", "G": "the goal"}
# (state number, ended, number of steps taken, the generator's four numbers)
Snapshot = tuple[int, bool, int, tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a tabular environment is put into words.

    goal      the task in words
    commands  one for each action number, all different
    describe  state number -> what is seen
    won       state number after a transition that ended the task -> the goal is reached
    """

    goal: str
    commands: tuple[str, ...]
    describe: Callable[[int], str]
    won: Callable[[int], bool]


class TabularText:
    """One tabular environment of Gymnasium, played by text commands.

    Rewards are the environment's own, times `reward_scale`. The `max_steps`-th step truncates. A
    command that is not admissible answers "Nothing happens." and costs a step. What is chance in
    it follows from the seed of `reset`; without one the stream of draws goes on.
    """

    def __init__(
        self, env: Any, rendering: Rendering, task_id: str, *, max_steps: int, reward_scale: float = 1.0
    ) -> None:
        self._env = env.unwrapped
        table = getattr(self._env, "P", None)
        num_actions = len(table[0]) if table else 0
        if num_actions != len(rendering.commands):
            raise ValueError(
                f"env: {type(self._env).__name__} has a transition table P of {num_actions} actions; "
                f"expected {len(rendering.commands)}, one for each command"
            )
        self.task_id, self.goal, self.rendering = task_id, rendering.goal, rendering
        self.max_steps, self.reward_scale = max_steps, reward_scale
        self._best: dict[str, str] = {}
        self.reset(seed=0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; `seed` decides the start and every draw that follows."""
        self._env.reset(seed=seed, options=options)
        self._num_steps, self._ended = 0, False
        return self.rendering.describe(int(self._env.s)), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info); info has "won" and "valid".

        Raises ValueError after the end of the trajectory."""
        if self._ended or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        self._num_steps += 1
        observation, reward, command = NOTHING_HAPPENS, 0.0, action.strip()
        valid = command in self.rendering.commands
        if valid:
            state, reward, self._ended, _, _ = self._env.step(self.rendering.commands.index(command))
            observation = self.rendering.describe(int(state))
        won = self._ended and self.rendering.won(int(self._env.s))
        truncated = not self._ended and self._num_steps >= self.max_steps
        info = {"won": won, "valid": valid}
        return observation, float(reward) * self.reward_scale, self._ended, truncated, info

    def state_key(self) -> str:
        """The state number; the draws to come and the number of steps taken are not part of it."""
        return str(int(self._env.s))

    def admissible(self) -> tuple[str, ...]:
        return tuple(sorted(self.rendering.commands))

    def snapshot(self) -> Snapshot:
        """The state number, the end, the number of steps taken, and the draws to come."""
        generator = self._env.np_random.bit_generator.state
        numbers = (generator["state"]["state"], generator["state"]["inc"])
        rest = (generator["has_uint32"], generator["uinteger"])
        return int(self._env.s), self._ended, self._num_steps, (*numbers, *rest)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this task; what is drawn from there on is drawn again."""
        self._env.s, self._ended, self._num_steps, (state, inc, has_uint32, uinteger) = snapshot
        self._env.np_random.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": state, "inc": inc},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }

    def reseed(self, seed: int) -> None:
        """Stay in this state; what is drawn from here on follows from `seed`."""
        self._env.np_random = np.random.Generator(np.random.PCG64(seed))

    def outcomes(self, command: str) -> list[Outcome]:
        """Every outcome of a command here, from the transition table; the step limit is left out."""
        _, _, num_steps, numbers = self.snapshot()
        table = self._env.P[int(self._env.s)][self.rendering.commands.index(command)]
        return [
            Outcome(
                float(probability),
                (int(after), bool(ended), num_steps, numbers),
                float(reward) * self.reward_scale,
                bool(ended),
            )
            for probability, after, reward, ended in table
        ]

    def expert(self) -> str | None:
        """The command of a best policy for discount 0.99 without a step limit; None after the end.

        Its computation, once for each task, visits every state."""
        if self._ended:
            return None
        if not self._best:
            here = self.snapshot()
            graph = enumerate_states(self)
            policy, _ = optimal(graph, EXPERT_GAMMA)
            self._best = {state.key: state.commands[int(np.argmax(policy(state)))] for state in graph.states}
            self.restore(here)
        return self._best[self.state_key()]

    def render(self) -> str:
        """The goal, the state's number and what is seen there."""
        state = int(self._env.s)
        return f"goal: {self.goal}\nstate {state}: {self.rendering.describe(state)}"


class FrozenLakeWorld(SeededWorld):
    """FrozenLake-v1 on generated maps of 4 by 4; tasks are named frozenlake/<split>/<seed>.

    `slippery` is Gymnasium's default: two moves in three go astray. What is next to the agent is
    seen, so a policy can play maps that it has not met. Reaching the goal pays `success_reward`.
    """

    name = "frozenlake"

    def __init__(self, config: WorldConfig, *, slippery: bool = True) -> None:
        super().__init__(config)
        self.slippery = slippery
        _gymnasium()

    def make(self, task_id: str) -> TabularText:
        """The lake of a task id. Raises ValueError for an id that is not of this world."""
        lake = _lake(*self.parts(task_id))
        env = _gymnasium().make("FrozenLake-v1", desc=list(lake), is_slippery=self.slippery)
        config = self.config
        return TabularText(
            env,
            lake_rendering(lake),
            task_id,
            max_steps=config.max_steps,
            reward_scale=config.success_reward,
        )

    def words(self) -> set[str]:
        places = " ".join(map(str, range(1, LAKE_SIDE + 1)))
        text = f"you are at row column : , . north east south west edge {places} {NOTHING_HAPPENS}"
        words = " ".join([text, *TILES.values(), *LAKE_COMMANDS, LAKE_GOAL.format(row="", column="")])
        return set(words.lower().replace(".", " . ").split())


def make_world(config: WorldConfig) -> FrozenLakeWorld:
    """Slippery FrozenLake; of the dials it knows max_steps and success_reward."""
    return FrozenLakeWorld(config)


def lake_rendering(lake: tuple[str, ...]) -> Rendering:
    """FrozenLake in words. `lake` holds the rows of its map, in the letters S, F, H and G."""
    target = "".join(lake).index("G")
    row, column = divmod(target, len(lake[0]))
    goal = LAKE_GOAL.format(row=row + 1, column=column + 1)
    # Partials, not closures: an environment can then be pickled.
    return Rendering(goal, LAKE_COMMANDS, partial(_describe, lake), partial(eq, target))


def _describe(lake: tuple[str, ...], state: int) -> str:
    row, column = divmod(state, len(lake[0]))
    seen = []
    for name, (down, right) in NEXT.items():
        r, c = row + down, column + right
        inside = 0 <= r < len(lake) and 0 <= c < len(lake[0])
        seen.append(f"{name}: {TILES[lake[r][c]] if inside else 'the edge'}")
    return f"You are at row {row + 1} column {column + 1}. {', '.join(seen)}."


@lru_cache(maxsize=512)
def _lake(split: str, seed: int) -> tuple[str, ...]:
    _gymnasium()
    from gymnasium.envs.toy_text.frozen_lake import generate_random_map

    def generate(rng: random.Random) -> tuple[str, ...]:
        return tuple(map(str, generate_random_map(LAKE_SIDE, ICE_SHARE, rng.randrange(2**31))))

    return first_of_split(generate, split, seed)


def _gymnasium() -> ModuleType:
    try:
        import gymnasium
    except ImportError as error:
        raise ValueError(
            "env: this world needs the package gymnasium; install it with pip install gymnasium"
        ) from error
    return gymnasium
