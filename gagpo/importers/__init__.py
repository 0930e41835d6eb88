"""Recorded trajectories of other projects as our own records, so that credit can be assigned on them.

Each format is one function (path, options) -> Imported in `READERS`; add your own to that dict. Files are
hostile: nothing in them is executed, sizes are bounded, and whatever is wrong is a ValueError that names
file, line or entry, and field.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from gagpo.importers.atif import read_atif
from gagpo.importers.chat import read_chat
from gagpo.importers.collect import combine
from gagpo.importers.detect import detect_format
from gagpo.importers.inspect_log import read_inspect
from gagpo.importers.own_steps import read_own_steps
from gagpo.importers.prime_rl import read_prime_rl
from gagpo.importers.records import Imported, Options
from gagpo.importers.swe_agent import read_swe_agent
from gagpo.importers.verl import read_verl

__all__ = ["READERS", "Imported", "Options", "combine", "detect_format", "import_file"]

READERS: dict[str, Callable[[Path, Options], Imported]] = {
    "chat": read_chat,
    "atif": read_atif,
    "verl": read_verl,
    "prime_rl": read_prime_rl,
    "swe_agent": read_swe_agent,
    "inspect": read_inspect,
    "steps": read_own_steps,
}


def import_file(path: str | Path, options: Options | None = None, format: str | None = None) -> Imported:
    """The trajectories of a file, whose format is told from its content unless one is named."""
    path, options = Path(path), options or Options()
    if format is not None and format not in READERS:
        near = get_close_matches(format, READERS, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"format: {format!r}; expected one of {', '.join(READERS)}{hint}")
    return READERS[format or detect_format(path, options.max_entry_bytes)](path, options)
