"""steps/<iteration>.parquet: one row a step, text, tokens and every credit column side by side.

What belongs to a trajectory is repeated in its rows (dictionary-encoded, so it costs little), so
that any selection of rows can be read on its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gagpo.table import Credit, Outcome, Step, StepTable, Trajectory

SCHEMA_VERSION = "1"
_NAME = pa.dictionary(pa.int32(), pa.string())

# column -> (Arrow type, value of a trajectory)
_OF_TRAJECTORY: dict[str, tuple[pa.DataType, Callable[[Trajectory], Any]]] = {
    "task_id": (_NAME, lambda t: t.task_id),
    "sibling": (pa.int32(), lambda t: t.sibling),
    "seed": (pa.int64(), lambda t: t.seed),
    "policy_version": (pa.int64(), lambda t: t.policy_version),
    "goal": (_NAME, lambda t: t.goal),
    "outcome": (_NAME, lambda t: t.outcome.name.lower()),
    "success": (pa.bool_(), lambda t: t.success),
    "final_observation": (_NAME, lambda t: t.final_observation),
    "final_state_key": (_NAME, lambda t: t.final_state_key),
}
# column -> (Arrow type, value of a step)
_OF_STEP: dict[str, tuple[pa.DataType, Callable[[Step], Any]]] = {
    "observation": (_NAME, lambda s: s.observation),
    "state_key": (_NAME, lambda s: s.state_key),
    "admissible": (pa.list_(pa.string()), lambda s: s.admissible),
    "action": (_NAME, lambda s: s.action),
    "prompt_ids": (pa.list_(pa.int32()), lambda s: s.prompt_ids),
    "action_ids": (pa.list_(pa.int32()), lambda s: s.action_ids),
    "sampler_logprobs": (pa.list_(pa.float64()), lambda s: s.logprobs),
    "reward": (pa.float64(), lambda s: s.reward),
    "valid": (pa.bool_(), lambda s: s.valid),
    "cut_off": (pa.bool_(), lambda s: s.cut_off),
}
# column -> (Arrow type, column of the StepTable, repeated where it is a trajectory's)
_OF_TABLE: dict[str, tuple[pa.DataType, Callable[[StepTable], np.ndarray]]] = {
    "trajectory": (pa.int32(), lambda table: table.trajectory),
    "step": (pa.int32(), lambda table: np.arange(table.num_steps) - table.offsets[table.trajectory]),
    "group": (pa.int64(), lambda table: table.group[table.trajectory]),
    "state": (pa.int64(), lambda table: table.state),
    "final_state": (pa.int64(), lambda table: table.final_state[table.trajectory]),
}
_OF_CREDIT = {
    field.name: pa.int64() if field.name in ("anchor", "anchor_size") else pa.float64()
    for field in fields(Credit)
}
SCHEMA = pa.schema(
    [(name, kind) for name, (kind, _) in {**_OF_TABLE, **_OF_TRAJECTORY, **_OF_STEP}.items()]
    + [("old_logprobs", pa.list_(pa.float32()))]
    + list(_OF_CREDIT.items()),
    metadata={"gagpo_steps_version": SCHEMA_VERSION},
)


def write_steps(
    path: Path,
    trajectories: Sequence[Trajectory],
    table: StepTable,
    credit: Credit,
    old_logprobs: Sequence[np.ndarray],
) -> None:
    """Write the steps of an iteration, all S of them, aside, flushed, and then renamed to `path`.

    `table` and `credit` are made of `trajectories`; `old_logprobs[s]` holds the trainer's, one
    for each action token of step s.
    """
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    if not len(steps) == table.num_steps == len(credit.advantage) == len(old_logprobs):
        raise ValueError(
            f"steps: {len(steps)} in the trajectories, {table.num_steps} in the table, "
            f"{len(credit.advantage)} in the credit, {len(old_logprobs)} old_logprobs; expected equal"
        )
    columns = {name: pa.array(get(table), kind) for name, (kind, get) in _OF_TABLE.items()}
    for name, (kind, get) in _OF_TRAJECTORY.items():
        values = pa.array([get(t) for t in trajectories], _plain(kind))
        columns[name] = values.take(pa.array(table.trajectory)).cast(kind)
    for name, (kind, get) in _OF_STEP.items():
        columns[name] = pa.array([get(s) for s in steps], _plain(kind)).cast(kind)
    columns["old_logprobs"] = pa.array(list(old_logprobs), pa.list_(pa.float32()))
    columns |= {name: pa.array(getattr(credit, name), kind) for name, kind in _OF_CREDIT.items()}
    aside = path.with_name(f".{path.name}.aside")  # a run has one writer; a torn one is overwritten
    with aside.open("wb") as file:
        pq.write_table(pa.table(columns, schema=SCHEMA), file, compression="zstd", write_page_checksum=True)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def read_steps(path: str | Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a steps file, of these columns or all. A ValueError says what is wrong with a file
    that is not one, as far as the columns go that were asked for."""
    wanted = SCHEMA if columns is None else [SCHEMA.field(name) for name in columns]
    try:
        with open(path, "rb") as opened:  # given a name, pyarrow would also follow URLs and read folders
            file = pq.ParquetFile(opened, page_checksum_verification=True)
            _check_schema(path, file.schema_arrow, wanted)
            table = file.read(None if columns is None else list(columns))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error})") from None
    for field in wanted:
        if _num_missing(table[field.name]):
            raise ValueError(f"{path}: column {field.name!r} has missing values")
    known = [outcome.name.lower() for outcome in Outcome]
    for name in table["outcome"].unique().to_pylist() if "outcome" in table.column_names else ():
        if name not in known:
            raise ValueError(f"{path}: outcome is {name!r}; expected one of {', '.join(known)}")
    return table


def _check_schema(path: str | Path, schema: pa.Schema, wanted: Iterable[pa.Field]) -> None:
    version = (schema.metadata or {}).get(b"gagpo_steps_version", b"none").decode()
    if version != SCHEMA_VERSION:
        raise ValueError(f"{path}: gagpo_steps_version is {version}; expected {SCHEMA_VERSION}")
    for field in wanted:
        num = schema.names.count(field.name)
        if num != 1:
            raise ValueError(f"{path}: column {field.name!r} " + ("occurs twice" if num else "is missing"))
        kind = schema.field(field.name).type
        if kind != field.type:
            raise ValueError(f"{path}: column {field.name!r} is {kind}; expected {field.type}")


def read_trajectories(table: pa.Table, *, lists: bool = True) -> list[Trajectory]:
    """The trajectories of `read_steps`' rows, as they were written, but for `final_prompt_ids`, which
    a steps file does not hold.

    Without `lists`, which can be most of a file, `admissible`, `prompt_ids`, `action_ids` and `logprobs`
    are empty.
    """
    left_out = () if lists else ("admissible", "prompt_ids", "action_ids", "sampler_logprobs")
    columns = {
        name: [()] * len(table) if name in left_out else _values(table[name])
        for name in (*_OF_TRAJECTORY, *_OF_STEP)
    }
    starts = trajectory_offsets(table)
    trajectories = []
    for start, end in pairwise(starts):
        steps = tuple(
            Step(
                observation=columns["observation"][row],
                state_key=columns["state_key"][row],
                admissible=tuple(columns["admissible"][row]),
                action=columns["action"][row],
                prompt_ids=tuple(columns["prompt_ids"][row]),
                action_ids=tuple(columns["action_ids"][row]),
                logprobs=tuple(columns["sampler_logprobs"][row]),
                reward=columns["reward"][row],
                valid=columns["valid"][row],
                cut_off=columns["cut_off"][row],
            )
            for row in range(start, end)
        )
        own = {name: columns[name][start] for name in _OF_TRAJECTORY}
        own["outcome"] = Outcome[own["outcome"].upper()]
        trajectories.append(Trajectory(steps=steps, **own))
    return trajectories


def _values(column: pa.ChunkedArray) -> list:
    """`column.to_pylist()`, ten times as fast: each distinct text is made once, numbers all together."""
    values: list = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            known = chunk.dictionary.to_pylist()
            values += [known[i] for i in chunk.indices.to_numpy().tolist()]
        elif pa.types.is_list(chunk.type):
            inner, ends = _values(pa.chunked_array([chunk.flatten()])), chunk.offsets.to_numpy()
            values += [inner[a:b] for a, b in pairwise((ends - ends[0]).tolist())]
        elif pa.types.is_string(chunk.type):
            values += chunk.to_pylist()
        else:
            values += chunk.to_numpy(zero_copy_only=False).tolist()
    return values


def step_table(table: pa.Table) -> StepTable:
    """The StepTable of `read_steps`' rows, with the states that credit was assigned on."""
    offsets = trajectory_offsets(table)
    first = offsets[:-1]

    def column(name: str) -> np.ndarray:
        return table[name].to_numpy()

    return StepTable(
        offsets=offsets,
        group=column("group")[first],
        truncated=np.array(table["outcome"].to_pylist())[first] == "truncated",
        success=column("success")[first],
        reward=column("reward"),
        state=column("state"),
        final_state=column("final_state")[first],
        valid=column("valid"),
    )


def read_credit(table: pa.Table) -> Credit:
    """The recorded Credit of `read_steps`' rows."""
    return Credit(**{name: table[name].to_numpy() for name in _OF_CREDIT})


def trajectory_offsets(table: pa.Table) -> np.ndarray:
    """(T+1,) int64, where each trajectory begins; rows of one lie together and count from 0.

    Of the columns of `read_steps` it needs `step` and `trajectory`.
    """
    step, trajectory = table["step"].to_numpy(), table["trajectory"].to_numpy()
    starts = np.flatnonzero(step == 0)
    offsets = np.append(starts, len(step)).astype(np.int64)
    whole = len(starts) > 0 and starts[0] == 0
    if not whole or np.any(step != np.arange(len(step)) - np.repeat(starts, np.diff(offsets))):
        raise ValueError("steps: rows are not whole trajectories, in the order in which they were written")
    if np.any(np.diff(trajectory) != (step[1:] == 0)):
        raise ValueError("steps: column 'trajectory' does not count the trajectories of column 'step'")
    return offsets


def _num_missing(column: pa.ChunkedArray) -> int:
    """Nulls of a column, those within lists included."""
    inner = pc.list_flatten(column).null_count if pa.types.is_list(column.type) else 0
    return column.null_count + inner


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that values are gathered in before they are dictionary-encoded."""
    return pa.string() if kind == _NAME else kind
