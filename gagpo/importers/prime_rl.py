"""prime-rl's token exports (enable_token_export), JSON Lines, `schema_version` 1.

Field names read: `token_ids`, `loss_mask`, `inference_logprobs`, `trainer_logprobs` (nats; entry i belongs to
token i), of equal length; `step`; `env_name`. Every run of trained tokens is a step, and the tokens before
it are its prompt. An export has neither rewards nor tasks: give missing_reward or reward_field; records
with equal tokens before the first trained one are siblings. It has no text either: unless `decode` is
given, texts are the ids. The recorded advantages are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from gagpo.importers.chat import goal_of, prompt_name, reward_of, task_and_sibling
from gagpo.importers.collect import collect
from gagpo.importers.entries import json_entries
from gagpo.importers.fields import finite, listed, mapping, short, text, whole
from gagpo.importers.records import Dropped, Episode, Imported, Message, Options, Tokens

COLUMNS = ("token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs")
NO_LOGPROBS = "sequences with trained tokens that have no logprob"
MAX_PROMPT_IDS = 1 << 26  # of one record, over all its steps: a prompt is repeated in every later one


def read_prime_rl(path: Path, options: Options) -> Imported:
    """Every sequence of the file. ValueError names file, line and field."""
    return collect(path, "prime_rl", _found(path, options), options, "conversation")


def _found(path: Path, options: Options) -> Iterator[Episode | Dropped]:
    for where, value in json_entries(path, options.max_entry_bytes):
        record = mapping(value, where, "a token export")
        if record.get("schema_version") != 1:
            raise ValueError(f"{where}: schema_version: {short(record.get('schema_version'))}; expected 1")
        columns = {name: listed(record, name, where) for name in COLUMNS}
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"{where}: {sizes}; expected columns of equal length")
        messages = _messages(columns, where, options)
        if messages is None:
            yield Dropped(NO_LOGPROBS)
            continue
        step = record.get("step")
        version = 0 if step is None else whole(step, f"{where}: step")
        env = "" if record.get("env_name") is None else text(record, "env_name", where) + " "
        reward = reward_of(record, where, options)
        goal = goal_of(record, where, options)
        task, sibling = task_and_sibling(record, where, options)
        task = env + prompt_name(messages) if task is None else task
        yield Episode(where, task, sibling, messages, reward, goal=goal, policy_version=version)


def _messages(columns: dict[str, list[Any]], where: str, options: Options) -> tuple[Message, ...] | None:
    """Runs of given tokens and of trained ones by turns; None where a trained one has no logprob."""
    ids = [whole(value, f"{where}: token_ids[{i}]") for i, value in enumerate(columns["token_ids"])]
    for i, value in enumerate(columns["loss_mask"]):
        if not isinstance(value, bool):
            raise ValueError(f"{where}: loss_mask[{i}]: {short(value)}; expected true or false")
    runs, start = [], 0
    for is_trained, run in groupby(columns["loss_mask"]):
        end = start + sum(1 for _ in run)
        runs.append((is_trained, start, end))
        start = end
    if sum(start for is_trained, start, _ in runs if is_trained) > MAX_PROMPT_IDS:
        raise ValueError(f"{where}: loss_mask: so many steps that their prompts exceed {MAX_PROMPT_IDS} ids")
    messages = []
    for is_trained, start, end in runs:
        shown = _written(ids[start:end], options, where)
        if not is_trained:
            messages.append(Message("user", shown))
            continue
        logprobs, old = (_logprobs(columns, name, start, end, where) for name in COLUMNS[2:])
        if logprobs is None or old is None:
            return None
        tokens = Tokens(tuple(ids[:start]), tuple(ids[start:end]), logprobs, old)
        messages.append(Message("assistant", shown, tokens=tokens))
    return tuple(messages)


def _logprobs(
    columns: dict[str, list[Any]], name: str, start: int, end: int, where: str
) -> tuple[float, ...] | None:
    values = columns[name][start:end]
    if None in values:
        return None
    return tuple(finite(value, f"{where}: {name}[{start + i}]", 1e30) for i, value in enumerate(values))


def _written(ids: Sequence[int], options: Options, where: str) -> str:
    if options.decode is None:
        return " ".join(map(str, ids))
    return text({"decode": options.decode(ids)}, "decode", where)
