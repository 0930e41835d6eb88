"""SWE-agent's `.traj` files: one JSON object, one attempt.

Field names read, of SWE-agent 0.7 to 1.1: `trajectory[{action, observation, thought, response, query}]`,
`history[{role, content, is_demo}]`, `info.exit_status`. The first prompt is the first step's `query`
(since 1.1), else the history before its first answer. The task is the file's name, which SWE-agent makes
the instance's. Rewards come from a later evaluation: give missing_reward or reward_field. A status other
than submitted, exit_command or exit_forfeit counts as truncated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gagpo.importers.chat import goal_of, reward_of, task_and_sibling
from gagpo.importers.collect import collect
from gagpo.importers.entries import json_entries
from gagpo.importers.fields import MISSING, at, listed, mapping, objects, text
from gagpo.importers.messages import call_of, chat_messages
from gagpo.importers.records import Episode, Imported, Message, Options
from gagpo.table import Outcome

TOOL = "action"
OWN_ENDS = ("submitted", "exit_command", "exit_forfeit")


def read_swe_agent(path: Path, options: Options) -> Imported:
    """The attempt of the file. ValueError names file and field."""
    return collect(path, "swe_agent", _episodes(path, options), options, "tools")


def _episodes(path: Path, options: Options) -> Iterator[Episode]:
    for where, value in json_entries(path, options.max_entry_bytes):
        record = mapping(value, where, "a SWE-agent trajectory")
        steps = listed(record, "trajectory", where)
        messages: list[Message] = []
        for i, value in enumerate(steps):
            place = f"{where}: trajectory[{i}]"
            step = mapping(value, place, "a step")
            if i == 0:
                messages = _prompt(record, step, where)
            said = next((key for key in ("thought", "response") if step.get(key) is not None), None)
            shown = "" if said is None else text(step, said, place)
            call = call_of(TOOL, text(step, "action", place), f"{place}: action")
            messages.append(Message("assistant", shown, (call,)))
            messages.append(Message("tool", text(step, "observation", place), name=TOOL))
        reward = reward_of(record, where, options)
        goal = goal_of(record, where, options)
        task, sibling = task_and_sibling(record, where, options)
        task = path.stem if task is None else task
        yield Episode(where, task, sibling, tuple(messages), reward, _outcome(record, where), goal)


def _prompt(record: dict[str, Any], first: dict[str, Any], where: str) -> list[Message]:
    """What the agent was shown before its first step; answers in it are examples."""
    query = objects(first, "query", f"{where}: trajectory[0]")
    if any(query):
        made = chat_messages(query, f"{where}: trajectory[0]: query")
    else:
        history = objects(record, "history", where)
        is_own = [item.get("role") == "assistant" and not item.get("is_demo") for item in history]
        end = is_own.index(True) if True in is_own else len(history)
        made = chat_messages(history[:end], f"{where}: history")
    return [replace(message, is_step=False) for message in made]


def _outcome(record: dict[str, Any], where: str) -> Outcome:
    status = at(record, "info.exit_status")
    if status is MISSING:
        return Outcome.TRUNCATED
    own = text({"exit_status": status}, "exit_status", f"{where}: info") in OWN_ENDS
    return Outcome.TERMINATED if own else Outcome.TRUNCATED
