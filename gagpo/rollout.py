"""Collecting trajectories: siblings of a batch of tasks, played side by side.

Every turn is one batched call of the actor for the environments that still live. Each draw is a
function of (seed, turn), so a rollout can be repeated without any stored random state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gagpo.config import RolloutConfig
from gagpo.envs.base import Env, World
from gagpo.prompts import PROMPTS
from gagpo.table import Outcome, Step, Trajectory


@dataclass(frozen=True, slots=True)
class Action:
    """What an actor answered: the command, its tokens (the end token included) and their
    logprobs in nats; `cut_off` when the token limit ended it. `fault` says why there is no command
    in the answer; it is recorded in the command's place, in parentheses, and never played."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cut_off: bool
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What an actor may look at when it acts: the prompt, the goal, the commands, and the live
    environment (for a planner; a policy must not touch it)."""

    prompt_ids: tuple[int, ...]
    goal: str
    admissible: tuple[str, ...]
    env: Env


class Actor(Protocol):
    """What a rollout needs of a policy."""

    def encode(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The token ids of each prompt, as the model sees it."""

    def act(self, turns: Sequence[Turn], temperature: float, seed: Sequence[int]) -> list[Action]:
        """One action for each turn; whatever is drawn is a function of `seed`."""


@dataclass(slots=True)
class _Episode:
    """A trajectory that is being played."""

    task_id: str
    sibling: int
    seed: int
    env: Env
    goal: str
    observation: str
    won: bool
    admissible: tuple[str, ...] = ()
    final_state_key: str = ""
    steps: list[Step] = field(default_factory=list)
    history: list[tuple[str, str]] = field(default_factory=list)
    outcome: Outcome | None = None


def collect(
    world: World,
    actor: Actor,
    tasks: Sequence[str],
    config: RolloutConfig,
    *,
    num_siblings: int,
    temperature: float,
    seed: Sequence[int],
    policy_version: int = 0,
    failures: dict[str, Exception] | None = None,
) -> list[Trajectory]:
    """Play `num_siblings` trajectories of each task; siblings lie side by side in the result.

    `seed` is a sequence of integers, as numpy's SeedSequence takes; each sibling's environment is
    reset with another number that follows from it. A task that is drawn twice makes two groups
    only under different ids, so `tasks` must not repeat.

    With `failures`, a task of which any environment raises is left out with all its siblings, and
    its first error is noted there under its id; without, the error is raised.
    """
    if len(set(tasks)) != len(tasks):
        raise ValueError("tasks: an id occurs twice; its siblings would be one group")
    failed = {} if failures is None else failures
    episodes: list[_Episode] = []
    for task in tasks:
        for sibling in range(num_siblings):
            with _bounded(failures, task):
                episodes.append(_start(world, task, sibling, seed))
    num_turns = 0
    while live := [e for e in episodes if e.outcome is None and e.task_id not in failed]:
        for episode in live:
            with _bounded(failures, episode.task_id):
                episode.admissible = _commands(episode.env)
        live = [episode for episode in live if episode.task_id not in failed]
        turns = [
            Turn(prompt, episode.goal, episode.admissible, episode.env)
            for prompt, episode in zip(_prompts(actor, live, config), live, strict=True)
        ]
        actions = actor.act(turns, temperature, (*seed, num_turns)) if turns else []
        for episode, turn, action in zip(live, turns, actions, strict=True):
            with _bounded(failures, episode.task_id):
                _advance(episode, turn, action)
        num_turns += 1
    return [_finish(e, policy_version) for e in episodes if e.task_id not in failed]


@contextmanager
def _bounded(failures: dict[str, Exception] | None, task_id: str) -> Iterator[None]:
    """Around everything that an environment does."""
    try:
        yield
    except Exception as error:
        if failures is None:
            raise
        failures.setdefault(task_id, error)


def _start(world: World, task_id: str, sibling: int, seed: Sequence[int]) -> _Episode:
    env = world.make(task_id)
    # One number longer than what the actor draws from, so that the two never meet.
    own = int(np.random.SeedSequence((*seed, sibling, 0)).generate_state(1)[0])
    observation, info = env.reset(seed=own)
    return _Episode(task_id, sibling, own, env, _text(env.goal), _text(observation), bool(info["won"]))


def _commands(env: Env) -> tuple[str, ...]:
    commands = env.admissible()
    if not commands:
        raise ValueError(f"admissible: task {env.task_id!r} admits no command and has not ended")
    return tuple(map(_text, commands))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"an environment gave {value!r}; expected a text")
    return value


def _prompts(actor: Actor, live: Sequence[_Episode], config: RolloutConfig) -> list[tuple[int, ...]]:
    """Prompts that fit: where one is too long, its oldest history goes first."""
    state = PROMPTS[config.prompt].state

    def text(index: int, shown: int) -> str:
        episode = live[index]
        history = episode.history[len(episode.history) - shown :]
        return state(episode.goal, history, episode.observation, episode.admissible, len(episode.history))

    shown = [min(len(episode.history), config.history) for episode in live]
    prompts = actor.encode([text(i, shown[i]) for i in range(len(live))])
    for i in range(len(live)):
        while len(prompts[i]) > config.max_prompt_tokens:
            if shown[i] == 0:
                raise ValueError(
                    f"max_prompt_tokens: {config.max_prompt_tokens}; a prompt of task "
                    f"{live[i].task_id!r} needs {len(prompts[i])} without any history"
                )
            shown[i] -= 1
            prompts[i] = actor.encode([text(i, shown[i])])[0]
    return prompts


def _advance(episode: _Episode, turn: Turn, action: Action) -> None:
    """One step of the environment, recorded. A cut-off action is played, but never valid."""
    before, key = episode.observation, _text(episode.env.state_key())
    text = "" if action.cut_off or action.fault else action.text
    said = f"({action.fault})" if action.fault else action.text
    observation, reward, terminated, truncated, info = episode.env.step(text)
    episode.steps.append(
        Step(
            observation=before,
            state_key=key,
            admissible=turn.admissible,
            action=said,
            prompt_ids=turn.prompt_ids,
            action_ids=action.token_ids,
            logprobs=action.logprobs,
            reward=float(reward),
            valid=bool(info["valid"]),
            cut_off=action.cut_off,
        )
    )
    episode.history.append((before, said))
    episode.observation, episode.won = _text(observation), bool(info["won"])
    if terminated or truncated:
        episode.final_state_key = episode.env.state_key()
        episode.outcome = Outcome.TERMINATED if terminated else Outcome.TRUNCATED


def _finish(episode: _Episode, policy_version: int) -> Trajectory:
    return Trajectory(
        task_id=episode.task_id,
        sibling=episode.sibling,
        seed=episode.seed,
        steps=tuple(episode.steps),
        outcome=episode.outcome,
        success=episode.won,
        goal=episode.goal,
        final_observation=episode.observation,
        final_state_key=episode.final_state_key,
        policy_version=policy_version,
    )
