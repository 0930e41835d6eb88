"""Wrappers: an `Env` around an `Env` that adds a limit, a memory or a rule. They nest in any order.

What a wrapper remembers is part of its snapshot. Of the state key it is a part only where what
comes next depends on it: limits count, and as the worlds' own step limits they leave the key as
it is; a shown history belongs to it. An action that is not valid changes nothing but counts.

The rule that invalid actions are answered as the world does needs no wrapper: it is what every
world does by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any

import numpy as np

from gagpo.envs.base import Env, World
from gagpo.envs.exact import Outcome

EARLIER, SAW, DID = "Earlier, the oldest first:", "saw:", "did:"


class Wrapper:
    """Passes everything on. A subclass keeps what it remembers in `_memory`, an immutable value.

    In a world of chance a wrapper has the world's `outcomes` and `reseed` (see `gagpo.envs.exact`), too.
    """

    _memory_at_start: Hashable = None
    _tells_outcomes = True

    def __init__(self, env: Env) -> None:
        self.env = env
        self._memory = self._memory_at_start
        if self._tells_outcomes and hasattr(env, "outcomes"):
            self.outcomes = self._outcomes
        if hasattr(env, "reseed"):
            self.reseed = env.reseed

    @property
    def unwrapped(self) -> Env:
        """The world's own environment, inside all wrappers."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    @property
    def task_id(self) -> str:
        return self.env.task_id

    @property
    def goal(self) -> str:
        return self.env.goal

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; the memory is that of the start."""
        self._memory = self._memory_at_start
        return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        return self.env.step(action)

    def state_key(self) -> str:
        return self.env.state_key()

    def admissible(self) -> tuple[str, ...]:
        return self.env.admissible()

    def snapshot(self) -> Hashable:
        """(the inner snapshot, the memory)."""
        return self.env.snapshot(), self._memory

    def restore(self, snapshot: Hashable) -> None:
        """Go back to a snapshot of this task, made under the same wrappers."""
        inner, self._memory = snapshot
        self.env.restore(inner)

    def expert(self) -> str | None:
        return self.env.expert()

    def render(self) -> str:
        return self.env.render()

    def _outcomes(self, command: str) -> list[Outcome]:
        """As the world's do, they leave the step limit out."""
        memory = self._memory_after_valid()
        return [o._replace(snapshot=(o.snapshot, memory)) for o in self.env.outcomes(command)]

    def _memory_after_valid(self) -> Hashable:
        return self._memory

    def _refuse_after(self, ended: bool) -> None:
        if ended:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")


class StepLimit(Wrapper):
    """Truncates with the `max_steps`-th step since the start, unless the task ends with it."""

    _memory_at_start = 0

    def __init__(self, env: Env, max_steps: int) -> None:
        super().__init__(env)
        self.max_steps = _at_least_one("max_steps", max_steps)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self._refuse_after(self._memory >= self.max_steps)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._memory += 1
        truncated = truncated or (not terminated and self._memory >= self.max_steps)
        return observation, reward, terminated, truncated, info


class InvalidLimit(Wrapper):
    """Truncates with the `num_invalid`-th invalid action in a row.

    It is a limit, not an end of the task: with `truncation` "bootstrap" the last state is worth
    what it is worth to siblings, and giving up there costs nothing by itself."""

    _memory_at_start = 0

    def __init__(self, env: Env, num_invalid: int) -> None:
        super().__init__(env)
        self.num_invalid = _at_least_one("num_invalid", num_invalid)

    def _memory_after_valid(self) -> int:
        return 0

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self._refuse_after(self._memory >= self.num_invalid)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._memory = 0 if info["valid"] else self._memory + 1
        truncated = truncated or (not terminated and self._memory >= self.num_invalid)
        return observation, reward, terminated, truncated, info


class DefaultAction(Wrapper):
    """Answers an invalid action with what `command` would show, such as "look": the agent sees
    where it is instead of "Nothing happens.".

    The action stays invalid and its reward is the world's. Where `command` is not admissible, the
    world's answer stands; where it would change the state or end the task, `step` raises
    ValueError, for an invalid action must not act. Outside a `ShownHistory` it shows the history
    as it would be after `command`; inside, the history knows nothing of it.
    """

    def __init__(self, env: Env, command: str) -> None:
        super().__init__(env)
        self.command = command

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        before = self.env.snapshot()
        observation, *answer = self.env.step(action)
        if not answer[-1]["valid"]:
            after = self.env.snapshot()
            self.env.restore(before)
            observation = self._shown() or observation
            self.env.restore(after)
        return observation, *answer

    def _shown(self) -> str | None:
        """What the command shows here; None where it is not admissible."""
        key = self.unwrapped.state_key()
        observation, _, terminated, _, info = self.env.step(self.command)
        if not info["valid"]:
            return None
        if terminated or self.unwrapped.state_key() != key:
            raise ValueError(
                f"command: {self.command!r} changes the state of task {self.task_id!r}; "
                "expected one that only shows something"
            )
        return observation


class ShownHistory(Wrapper):
    """Shows the last `num_steps` valid steps, (observation before, action), after each observation.

    The state is then more than the world's: its key holds what is shown and what will be, and
    siblings meet only where their last steps agree too. (The setting `history` shows earlier steps
    in the prompt and leaves the states as they are.) Invalid actions are not shown later. What
    comes of a command cannot be told from chances alone: in a world of chance it has no `outcomes`.
    """

    _memory_at_start = ((), "")  # (observation, action) pairs, the last valid observation
    _tells_outcomes = False

    def __init__(self, env: Env, num_steps: int) -> None:
        super().__init__(env)
        self.num_steps = _at_least_one("num_steps", num_steps)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        observation, info = super().reset(seed=seed, options=options)
        self._memory = (), observation
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        observation, *answer = self.env.step(action)
        if answer[-1]["valid"]:
            pairs, last = self._memory
            self._memory = (*pairs, (last, action.strip()))[-self.num_steps :], observation
        return self._with_history(observation), *answer

    def state_key(self) -> str:
        """32 hexadecimal digits of the world's key and the memory."""
        content = json.dumps([self.env.state_key(), *self._memory])
        return blake2b(content.encode(), digest_size=16).hexdigest()

    def _with_history(self, observation: str) -> str:
        """The observation comes first: the prompt "compact" shows a text's first words only."""
        pairs, _ = self._memory
        lines = [f"{SAW} {seen}\n{DID} {action}" for seen, action in pairs]
        return "\n".join([observation, EARLIER, *lines] if lines else [observation])


class WrappedWorld:
    """A world all of whose environments are wrapped: `wrap` takes one and returns it wrapped."""

    def __init__(self, world: World, wrap: Callable[[Env], Env]) -> None:
        self._world, self._wrap = world, wrap
        self.skipped = world.skipped

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        return self._world.tasks(split, num, rng)

    def make(self, task_id: str) -> Env:
        return self._wrap(self._world.make(task_id))

    def task_type(self, task_id: str) -> str:
        return self._world.task_type(task_id)

    def words(self) -> set[str]:
        """The world's, and those of a shown history."""
        frame = f"{EARLIER} {SAW} {DID}".lower().replace(":", " : ").replace(",", " , ")
        return self._world.words() | set(frame.split())


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: {value!r}; expected a whole number of at least 1")
    return value
