"""What makes two states of a recorded conversation equal.

Every key is a function (messages, cuts) -> names: cuts[t] is the index of the message that is step t,
and the t-th name is of the state before it, made of messages[:cuts[t]] alone; one more name follows,
of the state after everything. Names are digests of JSON, so no text can imitate a seam.

tools         every tool call and result so far, in their order; what was said does not count
last_result   the results of the last message that called tools, with the tools' names
observation   the text that was shown since the step before
conversation  every message so far: shared only by attempts that are the same up to here

Arguments and results that are JSON count as the values that they hold: order of keys and blanks do not
matter, and neither do the ids of calls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from gagpo.importers.entries import NotPlain, Strict
from gagpo.importers.fields import text
from gagpo.importers.records import KeyFunction, Message


def _refuse(value: str) -> Any:
    raise NotPlain(f"{value} is no JSON number")


def _finite(value: str) -> float:
    number = float(value)
    if abs(number) == float("inf"):
        raise NotPlain("a number is too large")
    return number


PLAIN = Strict(parse_constant=_refuse, parse_float=_finite)


def canonical(value: Any) -> str:
    """JSON with sorted keys and no blanks. ValueError for numbers that are not finite."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_text(written: str) -> str:
    """Canonical JSON of a text that is plain JSON; of any other, the text itself after a mark."""
    try:
        return canonical(PLAIN.decode(written))
    except (ValueError, NotPlain, RecursionError):
        return "text:" + written


def digest(value: Any) -> str:
    """A name for JSON values; 128 bits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]


def shown_text(messages: Sequence[Message]) -> str:
    """Messages as the agent is shown them."""
    return "\n\n".join(message.text for message in messages)


def tool_keys(messages: Sequence[Message], cuts: Sequence[int]) -> list[str]:
    """See `tools` above; each event is hashed once."""
    so_far = hashlib.sha256()
    names = []
    for start, end in pairwise([0, *cuts, len(messages)]):
        for message in messages[start:end]:
            for event in _events(message):
                so_far.update(canonical(event).encode() + b"\n")
        names.append(so_far.hexdigest()[:32])
    return names


def last_result_keys(messages: Sequence[Message], cuts: Sequence[int]) -> list[str]:
    """See `last_result` above."""
    last: list[list[str]] = []
    is_new = True
    names = []
    for start, end in pairwise([0, *cuts, len(messages)]):
        for message in messages[start:end]:
            if message.role == "tool":
                last = ([] if is_new else last) + _events(message)
            is_new = (is_new and message.role != "tool") or bool(message.calls)
        names.append(digest(last))
    return names


def observation_keys(messages: Sequence[Message], cuts: Sequence[int]) -> list[str]:
    """See `observation` above."""
    starts = [0, *(cut + 1 for cut in cuts)]
    ends = [*cuts, len(messages)]
    return [digest(shown_text(messages[a:b])) for a, b in zip(starts, ends, strict=True)]


def conversation_keys(messages: Sequence[Message], cuts: Sequence[int]) -> list[str]:
    """See `conversation` above."""
    so_far = hashlib.sha256()
    names = []
    for start, end in pairwise([0, *cuts, len(messages)]):
        for message in messages[start:end]:
            whole = [message.role, message.name, message.text, *_events(message)]
            so_far.update(canonical(whole).encode() + b"\n")
        names.append(so_far.hexdigest()[:32])
    return names


KEYS: dict[str, Callable[[Sequence[Message], Sequence[int]], list[str]]] = {
    "tools": tool_keys,
    "last_result": last_result_keys,
    "observation": observation_keys,
    "conversation": conversation_keys,
}


def own_keys(function: KeyFunction, messages: Sequence[Message], cuts: Sequence[int]) -> list[str]:
    """Names that a user's function gives to the messages before each action, and to all of them."""
    names = [function(messages[:end]) for end in (*cuts, len(messages))]
    return [text({"name": name}, "name", "state_key") for name in names]


def _events(message: Message) -> list[list[str]]:
    """What a message adds to the history of tools."""
    calls = [["call", call.name, call.arguments] for call in message.calls]
    if message.role != "tool":
        return calls
    return [*calls, ["result", message.name, canonical_text(message.text)]]
