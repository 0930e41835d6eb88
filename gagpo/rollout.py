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


class TurnRefused(ValueError):
    """An actor cannot act in one turn, `turns[index]`; nothing is said about the others."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class Actor(Protocol):
    """What a rollout needs of a policy."""

    def encode(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The token ids of each prompt, as the model sees it."""

    def act(self, turns: Sequence[Turn], temperature: float, seed: Sequence[int]) -> list[Action]:
        """One action for each turn; whatever is drawn is a function of `seed`.

        Raises TurnRefused for a turn whose commands cannot be told apart or are too long."""


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
    final_prompt_ids: tuple[int, ...] = ()


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
    final_prompts: bool = False,
) -> list[Trajectory]:
    """Play `num_siblings` trajectories of each task; siblings lie side by side in the result.

    `seed` is a sequence of integers, as numpy's SeedSequence takes; each sibling's environment is
    reset with another number that follows from it. A task that is drawn twice makes two groups
    only under different ids, so `tasks` must not repeat.

    With `failures`, a task of which any environment raises, or shows a page that is too long for a
    prompt, or whose commands the actor refuses, is left out with all its siblings, and its first
    error is noted there under its id; without, the error is raised.

    With `final_prompts`, trajectories that a limit cut keep the prompt that would have come next;
    where there is none, because it is too long even without history, that is such a failure too.
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
        turns = _turns(actor, live, config, failures)
        for episode, turn, action in _act(actor, turns, temperature, (*seed, num_turns), failures):
            with _bounded(failures, episode.task_id):
                _advance(episode, turn, action)
        num_turns += 1
    if final_prompts:
        cut = [e for e in episodes if e.outcome is Outcome.TRUNCATED and e.task_id not in failed]
        for episode, turn in _turns(actor, cut, config, failures):
            episode.final_prompt_ids = turn.prompt_ids
    return [_finish(e, policy_version) for e in episodes if e.task_id not in failed]


@contextmanager
def _bounded(failures: dict[str, Exception] | None, task_id: str) -> Iterator[None]:
    """Around everything that an environment does or is the cause of."""
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


def _turns(
    actor: Actor, live: Sequence[_Episode], config: RolloutConfig, failures: dict[str, Exception] | None
) -> list[tuple[_Episode, Turn]]:
    """A turn for each episode that can have one."""
    for episode in live:
        with _bounded(failures, episode.task_id):
            episode.admissible = _commands(episode.env)
    live = [episode for episode in live if episode.task_id not in (failures or ())]
    texts = [_prompt(episode, config, min(len(episode.history), config.history)) for episode in live]
    turns = []
    for episode, ids in zip(live, actor.encode(texts) if texts else [], strict=True):
        with _bounded(failures, episode.task_id):
            ids = _fitting(actor, episode, config, ids)
            turns.append((episode, Turn(ids, episode.goal, episode.admissible, episode.env)))
    return turns


def _prompt(episode: _Episode, config: RolloutConfig, num_shown: int) -> str:
    """The prompt with the last `num_shown` steps."""
    history = episode.history[len(episode.history) - num_shown :]
    state = PROMPTS[config.prompt].state
    return state(episode.goal, history, episode.observation, episode.admissible, len(episode.history))


def _fitting(actor: Actor, episode: _Episode, config: RolloutConfig, ids: tuple[int, ...]) -> tuple[int, ...]:
    """The tokens of a prompt that fits: of one that is too long, the oldest history goes first."""
    num_shown = min(len(episode.history), config.history)
    while len(ids) > config.max_prompt_tokens:
        if num_shown == 0:
            raise ValueError(
                f"max_prompt_tokens: {config.max_prompt_tokens}; a prompt of task "
                f"{episode.task_id!r} needs {len(ids)} without any history"
            )
        num_shown -= 1
        ids = actor.encode([_prompt(episode, config, num_shown)])[0]
    return ids


def _act(
    actor: Actor,
    turns: list[tuple[_Episode, Turn]],
    temperature: float,
    seed: Sequence[int],
    failures: dict[str, Exception] | None,
) -> Iterator[tuple[_Episode, Turn, Action]]:
    """The actor's answers, to all turns but those of failed tasks and those that it refuses."""
    while turns := [(e, turn) for e, turn in turns if e.task_id not in (failures or ())]:
        try:
            actions = actor.act([turn for _, turn in turns], temperature, seed)
        except TurnRefused as error:
            with _bounded(failures, turns[error.index][0].task_id):
                raise
        else:
            yield from ((*turn, action) for turn, action in zip(turns, actions, strict=True))
            return


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
        final_prompt_ids=episode.final_prompt_ids,
    )
