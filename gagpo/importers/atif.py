"""Harbor's Agent Trajectory Interchange Format, ATIF v1.0 to v1.7: a JSON object, or one a line.

Field names read: `schema_version`; `steps[{step_id, source, message, tool_calls[{tool_call_id,
function_name, arguments}], observation.results[{source_call_id, content}], metrics{prompt_token_ids,
completion_token_ids, logprobs}, is_copied_context}]` with source system, user or agent. A step of the
agent is a step; one that was copied from an earlier context is none. ATIF has no place for rewards:
`extra.reward` is read where it is there, else give reward_field or missing_reward. The task is
`extra.task_id`, else attempts with equal messages before the agent's first are siblings.
Embedded trajectories of subagents are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gagpo.importers.chat import goal_of, prompt_name, reward_of, task_and_sibling
from gagpo.importers.collect import collect
from gagpo.importers.entries import json_entries
from gagpo.importers.fields import finite, listed, mapping, objects, short, text, whole
from gagpo.importers.messages import call_of, content_text
from gagpo.importers.records import Dropped, Episode, Imported, Message, Options, Tokens

SOURCES = {"system": "system", "user": "user", "agent": "assistant"}
COPIED = "steps copied from an earlier context"
SUBAGENTS = "trajectories of subagents"
NO_LOGPROBS = "lists of token ids without logprobs"


def read_atif(path: Path, options: Options) -> Imported:
    """Every trajectory of the file. ValueError names file, line or entry, and field."""
    return collect(path, "atif", _found(path, options), options, "tools")


def _found(path: Path, options: Options) -> Iterator[Episode | Dropped]:
    for where, value in json_entries(path, options.max_entry_bytes):
        record = mapping(value, where, "an ATIF trajectory")
        version = text(record, "schema_version", where)
        if not version.startswith("ATIF-v1."):
            raise ValueError(f"{where}: schema_version: {short(version)}; expected ATIF-v1.0 to ATIF-v1.7")
        messages: list[Message] = []
        steps = listed(record, "steps", where)
        last = 0
        for i, value in enumerate(steps):
            place = f"{where}: steps[{i}]"
            step = mapping(value, place, "a step")
            last = whole(step.get("step_id"), f"{place}: step_id", last + 1)
            made, dropped = _step(step, place)
            messages += made
            yield from dropped
        if subagents := objects(record, "subagent_trajectories", where):
            yield Dropped(SUBAGENTS, len(subagents))
        reward = reward_of(record, where, options, ("extra.reward",))
        goal = goal_of(record, where, options)
        task, sibling = task_and_sibling(record, where, options, ("extra.task_id",), ("extra.trial",))
        task = prompt_name(messages) if task is None else task
        yield Episode(where, task, sibling, tuple(messages), reward, goal=goal)


def _step(step: dict[str, Any], where: str) -> tuple[list[Message], list[Dropped]]:
    """The messages of one step: what was said and called, then what came back."""
    source = text(step, "source", where)
    if source not in SOURCES:
        raise ValueError(f"{where}: source: {short(source)}; expected one of {', '.join(SOURCES)}")
    calls, tools = [], {}
    for i, value in enumerate(objects(step, "tool_calls", where)):
        place = f"{where}: tool_calls[{i}]"
        call = call_of(text(value, "function_name", place), value.get("arguments"), place)
        tools[text(value, "tool_call_id", place)] = call.name
        calls.append(call)
    is_copied = step.get("is_copied_context")
    if not isinstance(is_copied, (bool, type(None))):
        raise ValueError(f"{where}: is_copied_context: {short(is_copied)}; expected true or false")
    tokens = _tokens(step, where)
    said = Message(
        SOURCES[source],
        content_text(step.get("message"), f"{where}: message"),
        tuple(calls),
        is_step=not is_copied,
        tokens=tokens or Tokens(),
    )
    dropped = [Dropped(COPIED)] if is_copied and source == "agent" else []
    dropped += [Dropped(NO_LOGPROBS)] if tokens is None else []
    return [said, *_results(step, where, tools)], dropped


def _results(step: dict[str, Any], where: str, tools: dict[str, str]) -> list[Message]:
    if step.get("observation") is None:
        return []
    observation = mapping(step["observation"], f"{where}: observation", "an object with results")
    made = []
    for i, result in enumerate(objects(observation, "results", f"{where}: observation")):
        place = f"{where}: observation: results[{i}]"
        key = result.get("source_call_id")
        name = "" if key is None else tools.get(text(result, "source_call_id", place), "")
        made.append(Message("tool", content_text(result.get("content"), place), name=name))
    return made


def _tokens(step: dict[str, Any], where: str) -> Tokens | None:
    """Token ids with their logprobs; None where ids were recorded without them."""
    if step.get("metrics") is None:
        return Tokens()
    where = f"{where}: metrics"
    metrics = mapping(step["metrics"], where, "an object")
    ids = {
        name: tuple(
            whole(value, f"{where}: {name}[{i}]") for i, value in enumerate(listed(metrics, name, where))
        )
        for name in ("prompt_token_ids", "completion_token_ids")
        if metrics.get(name) is not None
    }
    if "completion_token_ids" not in ids:
        return Tokens()
    if metrics.get("logprobs") is None:
        return None
    values = listed(metrics, "logprobs", where)
    logprobs = tuple(finite(value, f"{where}: logprobs[{i}]") for i, value in enumerate(values))
    action_ids = ids["completion_token_ids"]
    if len(logprobs) != len(action_ids):
        raise ValueError(f"{where}: logprobs: {len(logprobs)} values for {len(action_ids)} completion tokens")
    return Tokens(ids.get("prompt_token_ids", ()), action_ids, logprobs)
