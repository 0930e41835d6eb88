"""Chat messages, in OpenAI's field names and in inspect_ai's.

OpenAI (chat completions): role, content (a text, or parts {type, text}), tool_calls [{id, type,
function: {name, arguments}}] with arguments as JSON text, function_call {name, arguments}; answers
have role tool or function, tool_call_id, name. inspect_ai: tool_calls [{id, function, arguments}]
with arguments as an object; answers have role tool, tool_call_id, function, error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gagpo.importers.fields import mapping, objects, short, text
from gagpo.importers.keys import canonical, canonical_text, digest
from gagpo.importers.records import Call, Message

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
ROLES |= {"tool": "tool", "function": "tool"}


def chat_messages(
    values: list[Any], where: str, attachments: Mapping[str, str] | None = None
) -> list[Message]:
    """The messages of a conversation. A text that is a key of `attachments` stands for its value."""
    tools: dict[str, str] = {}
    refused: set[str] = set()
    made: list[Message] = []
    for i, value in enumerate(values):
        made.append(_message(mapping(value, f"{where}[{i}]", "a message"), f"{where}[{i}]", tools, refused))
    if attachments:
        made = [replace(message, text=attachments.get(message.text, message.text)) for message in made]
    return _with_refusals(values, made, refused)


def content_text(value: Any, where: str) -> str:
    """The text of a message's content. A part that is no text is named by its type and a digest, so
    that equal texts mean equal contents."""
    if value is None:
        return ""
    if isinstance(value, str):
        return text({"content": value}, "content", where)
    if not isinstance(value, list):
        raise ValueError(f"{where}: content: {short(value)}; expected a text or a list of parts")
    return "\n".join(_part(part, f"{where}: content[{i}]") for i, part in enumerate(value))


def call_of(name: Any, arguments: Any, where: str) -> Call:
    """A call whose arguments are JSON text or an object."""
    name = text({"name": name}, "name", where)
    if isinstance(arguments, str):
        return Call(name, canonical_text(text({"arguments": arguments}, "arguments", where)))
    arguments = mapping(arguments, f"{where}: arguments", "JSON text or an object")
    return Call(name, _canonical(arguments, f"{where}: arguments"))


def _message(value: dict[str, Any], where: str, tools: dict[str, str], refused: set[str]) -> Message:
    """One message. `tools` holds the names of tools by the ids of their calls so far; ids whose answer
    is an error are added to `refused`."""
    role = text(value, "role", where)
    if role not in ROLES:
        raise ValueError(f"{where}: role: {short(role)}; expected one of {', '.join(ROLES)}")
    shown = content_text(value.get("content"), where)
    if ROLES[role] == "tool":
        key = value.get("tool_call_id")
        key = "" if key is None else text(value, "tool_call_id", where)
        name = next((text(value, k, where) for k in ("name", "function") if value.get(k) is not None), None)
        if value.get("error") is not None:
            error = mapping(value["error"], f"{where}: error", "an object with a message")
            shown = "\n".join([shown] * bool(shown) + [text(error, "message", f"{where}: error")])
            refused.add(key)
        return Message("tool", shown, name=tools.get(key, "") if name is None else name)
    calls = []
    if ROLES[role] == "assistant":
        for i, call in enumerate(objects(value, "tool_calls", where)):
            calls.append(_call(call, f"{where}: tool_calls[{i}]", tools))
        if value.get("function_call") is not None:
            call = mapping(value["function_call"], f"{where}: function_call", "an object")
            calls.append(call_of(call.get("name"), call.get("arguments"), f"{where}: function_call"))
    return Message(ROLES[role], shown, tuple(calls))


def _call(value: dict[str, Any], where: str, tools: dict[str, str]) -> Call:
    function = value.get("function")
    if isinstance(function, str):
        call = call_of(function, value.get("arguments"), where)
    else:
        inner = mapping(function, f"{where}: function", "a tool's name, or an object with name and arguments")
        call = call_of(inner.get("name"), inner.get("arguments"), f"{where}: function")
    if value.get("id") is not None:
        tools[text(value, "id", where)] = call.name
    return call


def _part(part: Any, where: str) -> str:
    part = {"text": part} if isinstance(part, str) else mapping(part, where, "a part of a message")
    for key in ("text", "reasoning"):
        if isinstance(part.get(key), str):
            return text(part, key, where)
    return f"[{text(part, 'type', where)} {digest(_canonical(part, where))}]"


def _canonical(value: Any, where: str) -> str:
    try:
        return canonical(value)
    except ValueError:
        raise ValueError(f"{where}: {short(value)}; expected finite numbers") from None


def _with_refusals(values: list[Any], made: list[Message], refused: set[str]) -> list[Message]:
    """A call that was answered with an error makes its message an action that is not admissible."""
    done = []
    for value, message in zip(values, made, strict=True):
        ids = (
            {call.get("id") for call in value.get("tool_calls") or ()} if message.calls and refused else set()
        )
        done.append(replace(message, valid=False) if ids & refused else message)
    return done
