"""The format of a file, from its content."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gagpo.importers.entries import json_entries
from gagpo.importers.fields import short

MAGIC = {b"PAR1": "steps", b"PK\x03\x04": "inspect", b"PK\x05\x06": "inspect"}
# format -> fields of which each alternative is enough; the more telling formats stand first
FIELDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "atif": (("schema_version", "steps"),),
    "prime_rl": (("token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs"),),
    "swe_agent": (("trajectory", "history"), ("trajectory", "info")),
    "verl": (("input", "output", "score"),),
    "chat": (("messages",), ("traj",)),
}


def detect_format(path: Path, max_entry_bytes: int = 1 << 28) -> str:
    """The name of the format. A ValueError names the nearest one and what the file lacks of it."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    if start in MAGIC:
        return MAGIC[start]
    where, value = next(json_entries(path, max_entry_bytes))
    if _is_conversation(value):
        return "chat"
    if not isinstance(value, dict):
        raise ValueError(f"{where}: {short(value)}; expected an object, or a list of chat messages")
    for format, alternatives in FIELDS.items():
        if any(all(name in value for name in names) for names in alternatives):
            return format
    raise ValueError(f"{where}: in no known format; {_nearest(value)}")


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]


def _nearest(value: dict[str, Any]) -> str:
    """The format most of whose fields are there, misspelt ones counted half."""
    best = (0.0, "", ())
    for format, alternatives in FIELDS.items():
        for names in alternatives:
            points = [1.0 if n in value else 0.5 * bool(_alike(n, value)) for n in names]
            best = max(best, (sum(points) / len(names), format, names), key=lambda found: found[0])
    share, format, names = best
    if not share:
        return f"expected one of {', '.join(('steps', 'inspect', *FIELDS))}"
    lacks = []
    for name in (n for n in names if n not in value):
        alike = _alike(name, value)
        lacks.append(f"{name!r} (it has {short(alike[0])})" if alike else repr(name))
    return f"nearest is {format}, of which it lacks {', '.join(lacks)}"


def _alike(name: str, value: dict[str, Any]) -> list[str]:
    return get_close_matches(name, list(value)[:1000], 1, 0.7)
