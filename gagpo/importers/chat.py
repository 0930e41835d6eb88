"""OpenAI-style chats as JSON Lines or JSON: one record an attempt, or one list of messages.

Field names read: `messages` (OpenAI) or `traj` (tau-bench's historical trajectories), with messages as in
gagpo.importers.messages; task `task_id`; sibling `trial`; reward `reward`; goal `goal` or
`info.task.instruction`, else the first user message; `truncated`, true where a limit ended the attempt.
Attempts without a task are siblings where everything before the first answer is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gagpo.importers.collect import collect
from gagpo.importers.entries import json_entries
from gagpo.importers.fields import MISSING, finite, first_of, listed, mapping, name_of, short, text, whole
from gagpo.importers.keys import digest
from gagpo.importers.messages import chat_messages
from gagpo.importers.records import Episode, Imported, Message, Options
from gagpo.table import Outcome

MESSAGES = ("messages", "traj")
GOALS = ("goal", "info.task.instruction")


def read_chat(path: Path, options: Options) -> Imported:
    """Every attempt of the file. ValueError names file, line or entry, and field."""
    found = (_episode(value, where, options) for where, value in json_entries(path, options.max_entry_bytes))
    return collect(path, "chat", found, options, "tools")


def prompt_name(messages: Sequence[Message]) -> str:
    """A task's name where none is recorded: a digest of what comes before the first step."""
    first = next((i for i, m in enumerate(messages) if m.role == "assistant" and m.is_step), len(messages))
    return "prompt:" + digest([[message.role, message.text] for message in messages[:first]])


def reward_of(record: Any, where: str, options: Options, defaults: tuple[str, ...] = ()) -> float | None:
    """The reward under `options.reward_field`, else under the first default; None where there is none."""
    path, reward = first_of(record, options.reward_field, defaults, where)
    return None if reward is MISSING else finite(reward, f"{where}: {path}")


def goal_of(record: Any, where: str, options: Options, defaults: tuple[str, ...] = ()) -> str | None:
    """The task in words, looked for likewise."""
    path, goal = first_of(record, options.goal_field, defaults, where)
    return None if goal is MISSING else text({path: goal}, path, where)


def task_and_sibling(
    record: Any,
    where: str,
    options: Options,
    tasks: tuple[str, ...] = (),
    siblings: tuple[str, ...] = (),
) -> tuple[str | None, int | None]:
    """(task, sibling) as recorded, each None where it is not."""
    path, task = first_of(record, options.task_field, tasks, where)
    task = None if task is MISSING else name_of(task, f"{where}: {path}")
    path, sibling = first_of(record, options.sibling_field, siblings, where)
    return task, None if sibling is MISSING else whole(sibling, f"{where}: {path}")


def _episode(value: Any, where: str, options: Options) -> Episode:
    record = {"messages": value} if isinstance(value, list) else mapping(value, where, "a chat record")
    field = next((name for name in MESSAGES if name in record), None)
    if field is None:
        raise ValueError(f"{where}: messages: missing; expected messages, or traj, with a list of them")
    messages = tuple(chat_messages(listed(record, field, where), f"{where}: {field}"))
    task, sibling = task_and_sibling(record, where, options, ("task_id",), ("trial",))
    reward = reward_of(record, where, options, ("reward",))
    truncated = record.get("truncated", False)
    if not isinstance(truncated, bool):
        raise ValueError(f"{where}: truncated: {short(truncated)}; expected true or false")
    outcome = Outcome.TRUNCATED if truncated else Outcome.TERMINATED
    task = prompt_name(messages) if task is None else task
    return Episode(where, task, sibling, messages, reward, outcome, goal_of(record, where, options, GOALS))
