"""Our own steps files (gagpo.steps_file): Parquet, as a run folder holds them.

The recorded state keys are kept unless another key is chosen; `observation` and `conversation` are made of
the recorded observations and actions. Rewards and successes are the recorded ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gagpo.importers.collect import imported
from gagpo.importers.fields import naming
from gagpo.importers.keys import KEYS, own_keys
from gagpo.importers.records import Imported, Message, Options
from gagpo.steps_file import read_steps, read_trajectories
from gagpo.table import Trajectory

BROKEN = (OSError, OverflowError, pa.ArrowException)
OWN_KEYS = ("recorded", "observation", "conversation")


def read_own_steps(path: Path, options: Options) -> Imported:
    """Every trajectory of the file. ValueError names the file and the column."""
    key = options.state_key or "recorded"
    if not callable(key) and key not in OWN_KEYS:
        raise ValueError(f"state_key: {key!r}; expected one of {', '.join(OWN_KEYS)}, or a function")
    with naming(path, "steps file that can be read", BROKEN):
        _check_size(path, options.max_total_bytes)
        rows = read_steps(path)
        _check_texts(path, rows, options.max_total_bytes)
        read = read_trajectories(rows)
        old = [np.array(values, np.float32) for values in rows["old_logprobs"].to_pylist()]
    trajectories = [_with_key(trajectory, key) for trajectory in read]
    made, start = [], 0
    for trajectory in trajectories:
        end = start + len(trajectory.steps)
        made.append((trajectory, old[start:end]))
        start = end
    return imported("steps", "a function" if callable(key) else key, made, {})


def _check_size(path: Path, limit: int) -> None:
    """Refuse a file whose columns say that they unpack to too much."""
    with open(path, "rb") as file:
        metadata = pq.ParquetFile(file).metadata
        total = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if total > limit or metadata.num_rows > limit:
        raise ValueError(f"{path}: {total} bytes unpacked; expected {limit} at most")


def _check_texts(path: Path, rows: pa.Table, limit: int) -> None:
    """Refuse texts that are stored once and repeated until they fill the memory."""
    for name in rows.column_names:
        if not pa.types.is_dictionary(rows.schema.field(name).type):
            continue
        chunks = [chunk for chunk in rows[name].chunks if len(chunk)]
        sizes = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks]
        total = sum(pc.sum(pc.cast(size, pa.int64())).as_py() or 0 for size in sizes)
        if total > limit:
            raise ValueError(f"{path}: column {name!r}: {total} bytes of text; expected {limit} at most")


def _with_key(trajectory: Trajectory, key: object) -> Trajectory:
    if key == "recorded":
        return trajectory
    messages: list[Message] = []
    for step in trajectory.steps:
        messages += [Message("user", step.observation), Message("assistant", step.action)]
    messages.append(Message("user", trajectory.final_observation))
    cuts = range(1, len(messages), 2)
    *names, last = own_keys(key, messages, cuts) if callable(key) else KEYS[key](messages, cuts)
    steps = tuple(replace(step, state_key=name) for step, name in zip(trajectory.steps, names, strict=True))
    return replace(trajectory, steps=steps, final_state_key=last)
