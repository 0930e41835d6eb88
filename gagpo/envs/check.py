"""Does an environment keep the contract? `check_world` plays it and says where it does not.

Credit by shared states stands on it: two states of one key must have one future.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from gagpo.envs.base import SPLITS, Env, World

NONSENSE = ("", "xyzzy", "go to nowhere 0", "\0", "look, twice")
NUM_THREADS = 4
LONGEST_EPISODE = 10_000


class CheckFailed(AssertionError):
    """The contract is broken; the message names the check, the task and what was seen."""


class Shown(NamedTuple):
    """All that a reset (command None) or a step shows."""

    command: str | None
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    won: bool
    valid: bool
    state_key: str
    admissible: tuple[str, ...]

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


KINDS = (object, str, (int, float), bool, bool, bool, bool, str, tuple)


def check_world(world: World, *, num_tasks: int = 3, num_steps: int = 40, seed: int = 0) -> None:
    """Check tasks of both splits and their environments; raises CheckFailed.

    Tasks: equal random states draw equal ids, the splits do not meet, an id comes back from its
    environment and has a type. Words: every word shown is one of `world.words()`.
    """
    drawn = {}
    for number, split in enumerate(SPLITS):
        first, again = (world.tasks(split, num_tasks, np.random.default_rng((seed, number))) for _ in "12")
        if first != again:
            raise CheckFailed(f"tasks: equal random states drew {first!r} and {again!r}")
        drawn[split] = first
    if shared := set.intersection(*map(set, drawn.values())):
        raise CheckFailed(f"tasks: {min(shared)!r} is in both splits")
    known = _words(world.words())
    for task_id in (task_id for tasks in drawn.values() for task_id in tasks):
        env = world.make(task_id)
        if env.task_id != task_id:
            raise CheckFailed(f"make: asked for {task_id!r}, got {env.task_id!r}")
        if not world.task_type(task_id):
            raise CheckFailed(f"task_type: task {task_id!r} has none")
        check_env(lambda task_id=task_id: world.make(task_id), num_steps=num_steps, seed=seed)
        texts = [text for s in _play(env, num_steps, seed) for text in (s.observation, *s.admissible)]
        if unknown := _words([env.goal, *texts]) - known:
            raise CheckFailed(f"words: task {task_id!r} shows {min(unknown)!r}, which words() lacks")


def check_env(make: Callable[[], Env], *, num_steps: int = 40, seed: int = 0) -> None:
    """Play an environment at random; raises CheckFailed where it breaks the contract.

    `make` returns a new environment of one and the same task at each call. Each check plays
    `num_steps` random steps, over as many episodes as they need.
    """
    env, story = make(), []
    checks: dict[str, Callable[[], None]] = {
        "play": lambda: story.extend(_play(env, num_steps, seed)),
        "types": lambda: _check_types(env, story),
        "seed": lambda: _compare("seed", env, story, _replay(make(), story, seed)),
        "isolation": lambda: _check_isolation(make, story, seed),
        "pickle": lambda: _check_pickle(make, story, seed),
        "threads": lambda: _check_threads(make, story, seed),
        "restore": lambda: _check_restore(make, num_steps, seed),
        "keys": lambda: _check_keys(make, num_steps, seed),
        "nonsense": lambda: _check_nonsense(make, num_steps, seed),
        "expert": lambda: _check_expert(make, num_steps, seed),
        "end": lambda: _check_end(make, seed),
    }
    for name, check in checks.items():
        try:
            check()
        except CheckFailed:
            raise
        except Exception as error:
            raise _failure(name, env, f"raised {error!r}") from error


def _start(env: Env, seed: int) -> Shown:
    observation, info = env.reset(seed=seed)
    won = info.get("won")
    return Shown(None, observation, 0.0, False, False, won, True, env.state_key(), env.admissible())


def _step(env: Env, command: str) -> Shown:
    observation, reward, terminated, truncated, info = env.step(command)
    flags = (terminated, truncated, info.get("won"), info.get("valid"))
    return Shown(command, observation, reward, *flags, env.state_key(), env.admissible())


def _random(env: Env, rng: np.random.Generator) -> str:
    commands = env.admissible()
    if not commands:
        raise _failure("admissible", env, "no command before the end")
    return commands[rng.integers(len(commands))]


def _play(env: Env, num_steps: int, seed: int) -> list[Shown]:
    """Random admissible commands, the third of them nonsense; a new episode where one has ended."""
    rng = np.random.default_rng(seed)
    story = [_start(env, seed)]
    for number in range(num_steps):
        if story[-1].ended:
            story.append(_start(env, seed))
        story.append(_step(env, NONSENSE[1] if number == 2 else _random(env, rng)))
    return story


def _replay(env: Env, story: Sequence[Shown], seed: int) -> list[Shown]:
    return [_again(env, shown, seed) for shown in story]


def _again(env: Env, shown: Shown, seed: int) -> Shown:
    return _start(env, seed) if shown.command is None else _step(env, shown.command)


def _compare(check: str, env: Env, story: Sequence[Shown], other: Sequence[Shown]) -> None:
    for number, (one, two) in enumerate(zip(story, other, strict=True)):
        for name, a, b in zip(Shown._fields, one, two, strict=True):
            if a != b:
                raise _failure(check, env, f"step {number}: {name} is {a!r} and {b!r}")


def _failure(check: str, env: Env, what: str) -> CheckFailed:
    return CheckFailed(f"{check}: task {env.task_id!r}: {what}")


def _words(texts: Sequence[str] | set[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())}


def _check_types(env: Env, story: Sequence[Shown]) -> None:
    for number, shown in enumerate(story):
        for name, value, kind in zip(Shown._fields, shown, KINDS, strict=True):
            if not isinstance(value, kind):
                raise _failure("types", env, f"step {number}: {name} is {value!r}; expected {kind}")
        commands = shown.admissible
        if not all(isinstance(c, str) and c for c in commands) or list(commands) != sorted(set(commands)):
            wanted = "expected texts, sorted, none twice"
            raise _failure("types", env, f"step {number}: admissible is {commands!r}; {wanted}")
        if not math.isfinite(shown.reward):
            raise _failure("types", env, f"step {number}: reward is {shown.reward}; expected a finite number")
    for name, value in (("goal", env.goal), ("render()", env.render())):
        if not (isinstance(value, str) and value):
            raise _failure("types", env, f"{name} is {value!r}; expected a text")


def _check_isolation(make: Callable[[], Env], story: Sequence[Shown], seed: int) -> None:
    """Two instances, one of them half the story behind, do not disturb each other."""
    one, two = make(), make()
    ahead, behind, lag = [], [], len(story) // 2
    for number in range(len(story) + lag):
        if number < len(story):
            ahead.append(_again(one, story[number], seed))
        if number >= lag:
            behind.append(_again(two, story[number - lag], seed))
    _compare("isolation", one, story, ahead)
    _compare("isolation", two, story, behind)


def _check_pickle(make: Callable[[], Env], story: Sequence[Shown], seed: int) -> None:
    """An environment that went through pickle in the midst of an episode goes on as if it had not."""
    env, half = make(), len(story) // 2
    first = _replay(env, story[:half], seed)
    env = pickle.loads(pickle.dumps(env))  # our own bytes, of this moment
    _compare("pickle", env, story, first + _replay(env, story[half:], seed))


def _check_threads(make: Callable[[], Env], story: Sequence[Shown], seed: int) -> None:
    with ThreadPoolExecutor(NUM_THREADS) as pool:
        stories = list(pool.map(lambda _: _replay(make(), story, seed), range(NUM_THREADS)))
    for other in stories:
        _compare("threads", make(), story, other)


def _check_restore(make: Callable[[], Env], num_steps: int, seed: int) -> None:
    """From each state of a walk: leave it, come back, and find it and its future unchanged; an
    instance that was elsewhere can go there too."""
    env, other, rng = make(), make(), np.random.default_rng((seed, 1))
    other.reset(seed=seed)
    shown = _start(env, seed)
    for number in range(num_steps):
        if shown.ended:
            shown = _start(env, seed)
        snapshot, before = env.snapshot(), shown
        shown = _step(env, _random(env, rng))
        end = env.snapshot()
        for player in (env, other):
            player.restore(snapshot)
            here = (player.state_key(), player.admissible())
            if here != (before.state_key, before.admissible):
                raise _failure("restore", env, f"step {number}: another state came back")
            _compare("restore", env, [shown], [_step(player, shown.command)])
        env.restore(end)


def _check_keys(make: Callable[[], Env], num_steps: int, seed: int) -> None:
    """States of one key admit the same commands, and each has the same answer, or the same
    chances where the environment tells them (`outcomes`, see `gagpo.envs.exact`).

    `truncated` is left out: a step limit counts steps, which are no part of the state.
    """
    env, rng = make(), np.random.default_rng((seed, 2))
    futures: dict[str, dict[str, object]] = {}
    shown = _start(env, seed)
    for number in range(num_steps):
        if shown.ended:
            shown = _start(env, seed)
        future = _future(env)
        known = futures.setdefault(env.state_key(), future)
        if known != future:
            command = min(c for c in {*known, *future} if known.get(c) != future.get(c))
            seen = f"{command!r} gave {known.get(command)!r} and {future.get(command)!r}"
            raise _failure("keys", env, f"step {number}: one key, but {seen}")
        shown = _step(env, _random(env, rng))


def _future(env: Env) -> dict[str, object]:
    """The answers to each admissible command; the environment is left where it was."""
    snapshot, future = env.snapshot(), {}
    for command in env.admissible():
        if hasattr(env, "outcomes"):
            future[command] = [_outcome(env, outcome) for outcome in env.outcomes(command)]
        else:
            future[command] = _step(env, command)._replace(truncated=False)
        env.restore(snapshot)
    return future


def _outcome(env: Env, outcome: tuple) -> tuple:
    """(chance, reward, terminated, state key after)."""
    probability, after, reward, terminated = outcome
    env.restore(after)
    return probability, reward, terminated, env.state_key()


def _check_nonsense(make: Callable[[], Env], num_steps: int, seed: int) -> None:
    """Wherever it is said, nonsense is not valid, changes nothing and pays nothing."""
    env, rng = make(), np.random.default_rng((seed, 4))
    shown = _start(env, seed)
    for number in range(num_steps):
        if shown.ended:
            shown = _start(env, seed)
        snapshot = env.snapshot()
        for command in set(NONSENSE) - set(shown.admissible):
            after = _step(env, command)
            same = after._replace(valid=True)[5:] == shown._replace(valid=True)[5:]
            if after.valid or after.reward > 0 or not same:
                seen = f"step {number}: {command!r} gave {after!r} after {shown!r}"
                raise _failure("nonsense", env, f"{seen}; expected no change")
            env.restore(snapshot)
        shown = _step(env, _random(env, rng))


def _check_expert(make: Callable[[], Env], num_steps: int, seed: int) -> None:
    """What the planner says is admissible, or it says nothing."""
    env = make()
    shown = _start(env, seed)
    for number in range(num_steps):
        command = env.expert()
        if command is None or shown.ended:
            return
        if command not in shown.admissible:
            raise _failure("expert", env, f"step {number}: {command!r} is not admissible")
        shown = _step(env, command)


def _check_end(make: Callable[[], Env], seed: int) -> None:
    """An episode ends, and a step after its end is refused."""
    env, rng = make(), np.random.default_rng((seed, 3))
    shown = _start(env, seed)
    for _ in range(LONGEST_EPISODE):
        if shown.ended:
            break
        shown = _step(env, _random(env, rng))
    else:
        raise _failure("end", env, f"{LONGEST_EPISODE} steps and no end; set a step limit")
    try:
        env.step(NONSENSE[1])
    except ValueError:
        return
    raise _failure("end", env, "a step after the end was taken; expected a ValueError")
