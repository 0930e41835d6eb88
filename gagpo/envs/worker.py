"""Environments in processes of their own, with a time limit: one that crashes or hangs is bounded.

Only JSON comes back from a process, and every answer's type is checked. A snapshot is made by
pickle in the process, and only a process reads it again; here it is a text that nobody opens.
"""

from __future__ import annotations

import base64
import json
import math
import multiprocessing
import pickle
import sys
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, make_world

LARGEST_ANSWER = 2**24  # bytes
START_LIMIT_S = 60.0


class EnvFailed(RuntimeError):
    """An environment crashed, hung or answered nonsense; it cannot be played any further."""


class WorkerWorld:
    """The world of `config`, each of whose environments plays in a process of its own.

    A process starts in about the time of an import of numpy; each call is a round trip through a
    pipe. `time_limit_s` bounds each call, `start_limit_s` the start of a process.
    """

    def __init__(
        self, config: WorldConfig, *, time_limit_s: float, start_limit_s: float = START_LIMIT_S
    ) -> None:
        for name, limit in (("time_limit_s", time_limit_s), ("start_limit_s", start_limit_s)):
            if not (math.isfinite(limit) and limit > 0):
                raise ValueError(f"{name}: {limit!r}; expected a positive number of seconds")
        self._config, self._limits = config, (start_limit_s, time_limit_s)
        self._world = make_world(config)
        self.skipped = self._world.skipped

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        return self._world.tasks(split, num, rng)

    def make(self, task_id: str) -> WorkerEnv:
        """Raises EnvFailed where the process cannot start the task, ValueError for an unknown id."""
        return WorkerEnv(self._config, task_id, self._limits)

    def task_type(self, task_id: str) -> str:
        return self._world.task_type(task_id)

    def words(self) -> set[str]:
        return self._world.words()


class WorkerEnv:
    """The `Env` of a task that is played elsewhere. A ValueError there is a ValueError here; every
    other failure is EnvFailed, ends the process, and is raised again by each later call."""

    def __init__(self, config: WorldConfig, task_id: str, limits: tuple[float, float]) -> None:
        self.task_id = task_id
        self._made_of = (config, task_id, limits)
        self._failure: str | None = None
        self._limit_s = limits[0]
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, config, task_id), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._stop = weakref.finalize(self, _stop, process, self._pipe)
        self.goal = self._ask("goal", _is_text)
        self._limit_s = limits[1]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        observation, won = self._ask("reset", _is_start, seed, options)
        return observation, {"won": won}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        answer = self._ask("step", _is_step, action)
        observation, reward, terminated, truncated, won, valid = answer
        return observation, float(reward), terminated, truncated, {"won": won, "valid": valid}

    def state_key(self) -> str:
        return self._ask("state_key", _is_text)

    def admissible(self) -> tuple[str, ...]:
        return tuple(self._ask("admissible", _is_texts))

    def snapshot(self) -> str:
        return self._ask("snapshot", _is_text)

    def restore(self, snapshot: str) -> None:
        self._ask("restore", _is_none, snapshot)

    def expert(self) -> str | None:
        return self._ask("expert", lambda answer: answer is None or _is_text(answer))

    def render(self) -> str:
        return self._ask("render", _is_text)

    def close(self) -> None:
        """End the process; it also ends when this object is forgotten."""
        self._failure = self._failure or "is closed"
        self._stop()

    def __getstate__(self) -> tuple[tuple, str]:
        return self._made_of, self.snapshot()

    def __setstate__(self, state: tuple[tuple, str]) -> None:
        made_of, snapshot = state
        self.__init__(*made_of)
        self.restore(snapshot)

    def _ask(self, method: str, is_right: Callable[[Any], bool], *args: Any) -> Any:
        if self._failure:
            raise self._failed(method, self._failure)
        request = json.dumps([method, *args]).encode()
        try:
            self._pipe.send_bytes(request)
            if not self._pipe.poll(self._limit_s):
                raise self._failed(method, f"did not answer within {self._limit_s:g} s")
            answer = json.loads(self._pipe.recv_bytes(LARGEST_ANSWER))
        except (EOFError, OSError) as error:
            raise self._failed(method, f"its process ended or broke the pipe: {error!r}") from error
        except (ValueError, RecursionError) as error:
            raise self._failed(method, f"answered what is not JSON: {error}") from error
        kind, value = answer if isinstance(answer, list) and len(answer) == 2 else (None, answer)
        if kind == "refused" and _is_text(value):
            raise ValueError(value)
        if kind == "raised":
            raise self._failed(method, f"raised {value!r:.500}")
        if kind != "answered" or not is_right(value):
            raise self._failed(method, f"answered {value!r:.500}")
        return value

    def _failed(self, method: str, what: str) -> EnvFailed:
        self._failure = what
        self._stop()
        return EnvFailed(f"{method}: task {self.task_id!r}: {what}")


def _is_text(value: Any) -> bool:
    """Text that can be written to a file: without lone surrogates, which JSON lets through."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_none(value: Any) -> bool:
    return value is None


def _is_start(value: Any) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [str, bool] and _is_text(value[0])


def _is_step(value: Any) -> bool:
    return (
        isinstance(value, list)
        and [type(part) for part in value] in ([str, kind, bool, bool, bool, bool] for kind in (int, float))
        and _is_text(value[0])
        and abs(value[1]) <= sys.float_info.max  # an integer may be larger than any float
    )


def _stop(process: multiprocessing.process.BaseProcess, pipe: Connection) -> None:
    pipe.close()
    process.kill()
    process.join()


def _serve(pipe: Connection, config: WorldConfig, task_id: str) -> None:
    """Runs in the process: answers requests until the pipe is closed."""
    env: Env | None = None
    while True:
        try:
            method, *args = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            env = env or _make(config, task_id)
            answer = ["answered", _answer(env, method, args)]
            text = json.dumps(answer)
        except ValueError as error:
            text = json.dumps(["refused", str(error)])
        except Exception as error:
            text = json.dumps(["raised", repr(error)])
        pipe.send_bytes(text.encode())


def _make(config: WorldConfig, task_id: str) -> Env:
    """The environment in this process; worlds that always play elsewhere call that `make_here`."""
    world = make_world(config)
    return getattr(world, "make_here", world.make)(task_id)


def _answer(env: Env, method: str, args: list) -> Any:
    """What `method` gives, of values that JSON can hold."""
    if method == "goal":
        return env.goal
    if method == "reset":
        observation, info = env.reset(seed=args[0], options=args[1])
        return [observation, info["won"]]
    if method == "step":
        *answer, info = env.step(args[0])
        return [*answer, info["won"], info["valid"]]
    if method == "snapshot":
        return base64.b64encode(pickle.dumps(env.snapshot())).decode()
    if method == "restore":
        return env.restore(pickle.loads(base64.b64decode(args[0])))
    return getattr(env, method)()
