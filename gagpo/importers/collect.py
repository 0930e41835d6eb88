"""From recorded attempts to trajectories, with a count of what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from gagpo.importers.keys import KEYS, own_keys, shown_text
from gagpo.importers.records import Call, Dropped, Episode, Imported, Message, Options
from gagpo.table import Outcome, Step, Trajectory

NO_STEP = "attempts without a step of the agent"
NO_REWARD = "attempts without a reward (give missing_reward, or reward_field)"


def collect(
    path: object, format: str, found: Iterable[Episode | Dropped], options: Options, default_key: str
) -> Imported:
    """Every attempt as a trajectory. ValueError names the place of a sibling that is there twice, a
    state key that does not exist or cannot tell states apart, and a file without any attempt left."""
    key = options.state_key or default_key
    if not callable(key) and key not in KEYS:
        near = get_close_matches(str(key), KEYS, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"state_key: {key!r}; expected one of {', '.join(KEYS)}, or a function{hint}")
    dropped: Counter[str] = Counter()
    made: list[tuple[Trajectory, list[np.ndarray]]] = []
    siblings = _Siblings()
    has_tools = False
    for episode in _nested(path, found):
        if isinstance(episode, Dropped):
            dropped[episode.reason] += episode.num
        elif not any(_is_step(message) for message in episode.messages):
            dropped[NO_STEP] += 1
        elif episode.reward is None and options.missing_reward is None:
            dropped[NO_REWARD] += 1
        else:
            has_tools = has_tools or any(m.calls or m.role == "tool" for m in episode.messages)
            made.append(_trajectory(episode, siblings.number(episode), key, options))
    if not made:
        reasons = ", ".join(f"{num} {reason}" for reason, num in sorted(dropped.items()))
        raise ValueError(f"{path}: no trajectory left; left out: {reasons or 'nothing'}")
    if key in ("tools", "last_result") and not has_tools:
        raise ValueError(
            f"{path}: state_key is {key!r}, yet no tool is ever called: all states would be one; "
            "expected observation, conversation or a function"
        )
    return imported(format, "a function" if callable(key) else key, made, dropped)


def imported(
    format: str,
    state_key: str,
    made: Sequence[tuple[Trajectory, Sequence[np.ndarray]]],
    dropped: dict[str, int],
) -> Imported:
    """The siblings of a task beside one another, tasks in the order in which they came."""
    order: dict[str, int] = {}
    for trajectory, _ in made:
        order.setdefault(trajectory.task_id, len(order))
    made = sorted(made, key=lambda pair: (order[pair[0].task_id], pair[0].sibling))
    old_logprobs = tuple(old for _, olds in made for old in olds)
    return Imported(format, state_key, tuple(t for t, _ in made), old_logprobs, dict(dropped))


def combine(parts: Sequence[Imported]) -> Imported:
    """Several imports of one format as one; siblings are counted anew, in the order of the parts."""
    if not parts or len({(part.format, part.state_key) for part in parts}) != 1:
        found = sorted({f"{part.format} by {part.state_key}" for part in parts})
        raise ValueError(f"parts: {', '.join(found) or 'none'}; expected one format and one state key")
    counts: Counter[str] = Counter()
    made = []
    for part in parts:
        start = 0
        for trajectory in part.trajectories:
            end = start + len(trajectory.steps)
            anew = replace(trajectory, sibling=counts[trajectory.task_id])
            made.append((anew, part.old_logprobs[start:end]))
            counts[trajectory.task_id] += 1
            start = end
    dropped = sum((Counter(part.dropped) for part in parts), Counter())
    return imported(parts[0].format, parts[0].state_key, made, dropped)


class _Siblings:
    """Numbers attempts at a task: as recorded, else in the order in which they come."""

    def __init__(self) -> None:
        self.taken: dict[str, set[int]] = {}
        self.next: Counter[str] = Counter()

    def number(self, episode: Episode) -> int:
        taken = self.taken.setdefault(episode.task, set())
        number = episode.sibling
        if number is None:
            while self.next[episode.task] in taken:
                self.next[episode.task] += 1
            number = self.next[episode.task]
        elif number in taken:
            raise ValueError(f"{episode.where}: sibling {number} of task {episode.task!r} is there twice")
        taken.add(number)
        return number


def _trajectory(
    episode: Episode, sibling: int, key: object, options: Options
) -> tuple[Trajectory, list[np.ndarray]]:
    messages = episode.messages
    cuts = [i for i, message in enumerate(messages) if _is_step(message)]
    names = own_keys(key, messages, cuts) if callable(key) else KEYS[key](messages, cuts)
    reward = options.missing_reward if episode.reward is None else episode.reward
    starts = [0, *(cut + 1 for cut in cuts)]
    steps = []
    for start, cut, name in zip(starts, cuts, names, strict=False):
        message = messages[cut]
        steps.append(
            Step(
                observation=shown_text(messages[start:cut]),
                state_key=name,
                admissible=(),
                action=action_text(message),
                prompt_ids=message.tokens.prompt_ids,
                action_ids=message.tokens.action_ids,
                logprobs=message.tokens.logprobs,
                reward=float(reward) if cut == cuts[-1] else 0.0,
                valid=message.valid,
            )
        )
    is_cut = options.max_steps is not None and len(steps) >= options.max_steps
    goal = next((m.text for m in messages if m.role == "user"), "")
    trajectory = Trajectory(
        task_id=episode.task,
        sibling=sibling,
        seed=0,
        steps=tuple(steps),
        outcome=Outcome.TRUNCATED if is_cut else episode.outcome,
        success=float(reward) >= options.success_at,
        goal=goal if episode.goal is None else episode.goal,
        final_observation=shown_text(messages[starts[-1] :]),
        final_state_key=names[-1],
        policy_version=episode.policy_version,
    )
    return trajectory, [np.array(messages[cut].tokens.old_logprobs, np.float32) for cut in cuts]


def action_text(message: Message) -> str:
    """What the agent said, then its calls, a line each."""
    return "\n".join([message.text] * bool(message.text) + [_call_text(call) for call in message.calls])


def _call_text(call: Call) -> str:
    return f"{call.name}({call.arguments.removeprefix('text:')})"


def _is_step(message: Message) -> bool:
    return message.role == "assistant" and message.is_step


def _nested(path: object, found: Iterable[Episode | Dropped]) -> Iterator[Episode | Dropped]:
    """The same; a value that is nested too deeply to be handled is the file's fault, not ours."""
    try:
        yield from found
    except RecursionError:
        raise ValueError(
            f"{path}: an entry is nested too deeply; expected some hundred levels at most"
        ) from None
