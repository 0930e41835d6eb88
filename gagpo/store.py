"""The run folder: everything that a run leaves behind, written while it goes on.

    runs/<run_id>/request.json       the settings that were asked for
                  config.json        the settings in force, versions, commit
                  status.json        the truth about the run
                  metrics.jsonl      one line for each record, append-only
                  steps/000012.parquet   text, tokens and credit of an iteration (gagpo.steps_file)
                  checkpoints/       (gagpo.checkpoint)
                  labels.json        what reviewers are asked (gagpo.labels)
                  annotations/ann.jsonl  what one of them answered, append-only (gagpo.annotations)
                  stop               asks the run to stop
                  lock               held by the process that writes

Files that are replaced are written aside and renamed, so a reader sees the old or the new one.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gagpo.config import Config
from gagpo.table import Credit, StepTable, Trajectory

SCHEMA_VERSION = 1
# Settings that a resumed run may change: they do not touch what was computed so far.
FREE_SETTINGS = frozenset(
    {"iterations", "eval_every", "eval_tasks", "final_eval_tasks", "checkpoint_every"}
    | {"keep_checkpoints", "tensorboard", "num_threads"}
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Status:
    """Where a run stands.

    `state` is starting, warming, running, stopped, complete, failed or (only when read)
    interrupted; `updated` is in seconds since 1970; `pid` is of the training process.
    """

    state: str
    iteration: int
    iterations: int
    message: str
    pid: int
    host: str
    updated: float

    def __str__(self) -> str:
        text = f"{self.state} after iteration {self.iteration} of {self.iterations}"
        text += f": {self.message}" if self.message else ""
        return text + ("; the same settings resume it" if self.state in ("stopped", "interrupted") else "")


class RunLocked(RuntimeError):
    """Another process writes to the run."""


class Stopped(Exception):
    """The run was asked to stop, for the reason given."""


def check_name(field: str, name: str) -> None:
    """ValueError, which begins with `field`, where `name` cannot be that of a file beside others."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise ValueError(
            f"{field}: {name!r}; expected 1 to 100 letters, digits, dots, dashes or underscores, "
            "the first a letter or digit, and no two dots in a row"
        )


def open_run(runs_dir: str | Path, run_id: str) -> Run:
    """The run of that name, whose folder is made if need be. It must lie under `runs_dir`."""
    check_name("run_id", run_id)
    root = Path(runs_dir).resolve()
    path = root / run_id
    if path.resolve().parent != root:
        raise ValueError(f"run_id: {run_id!r} leads to {path.resolve()}, outside of {root}")
    if path.exists() and not path.is_dir():
        raise ValueError(f"run_id: {run_id!r} is a file in {root}; expected a run's folder or a new name")
    path.mkdir(parents=True, exist_ok=True)
    return Run(path)


class Run:
    """One run folder. Reading needs no lock; whatever writes holds `lock()`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def run_id(self) -> str:
        return self.path.name

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder as its one writer; RunLocked names the holder otherwise.

        The operating system frees the lock when the process ends, however it ends.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "an unnamed process"
                raise RunLocked(
                    f"run {self.run_id!r} is being written by {holder}; training whose notebook is gone "
                    "saves and ends after its iteration"
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}")
            file.flush()
            yield

    def write_request(self, config: Config) -> None:
        """What the next training process is to do."""
        self._write_json("request.json", {"schema_version": SCHEMA_VERSION, "config": config.to_dict()})

    def read_request(self) -> Config:
        return Config.from_dict(self._read_json("request.json")["config"])

    def has_config(self) -> bool:
        return (self.path / "config.json").exists()

    def write_config(self, config: Config, facts: dict[str, Any]) -> None:
        """The settings in force and what the run was made with (JSON values)."""
        whole = {"schema_version": SCHEMA_VERSION, "config": config.to_dict(), **facts}
        self._write_json("config.json", whole)

    def read_config(self) -> Config:
        return Config.from_dict(self._read_json("config.json")["config"])

    def read_facts(self) -> dict[str, Any]:
        """config.json without the settings: versions, commit, machine."""
        whole = self._read_json("config.json")
        return {name: value for name, value in whole.items() if name != "config"}

    def check_same(self, config: Config) -> None:
        """Refuse to resume under settings that would make it another run (see FREE_SETTINGS), or
        with fewer iterations than it has behind it."""
        old, new = self.read_config().to_flat(), config.to_flat()
        changed = [name for name in new if new[name] != old[name] and name not in FREE_SETTINGS]
        if changed:
            listed = ", ".join(f"{name} was {old[name]!r} and is now {new[name]!r}" for name in changed)
            raise ValueError(
                f"run {self.run_id!r} was begun with other settings: {listed}; take a new run_id"
            )
        behind = max((record["iteration"] for record in self.read_metrics("train")), default=0)
        if config.run.iterations < behind:
            raise ValueError(
                f"iterations: {config.run.iterations}; run {self.run_id!r} has {behind} behind it"
            )

    def write_status(self, state: str, iteration: int, iterations: int, message: str = "") -> None:
        status = Status(state, iteration, iterations, message, os.getpid(), socket.gethostname(), time.time())
        self._write_json("status.json", {name: getattr(status, name) for name in Status.__slots__})

    def read_status(self) -> Status | None:
        """None before the first; "interrupted" where the process of an unfinished run is gone."""
        path = self.path / "status.json"
        if not path.exists():
            return None
        value = self._read_json("status.json")
        if set(value) != set(Status.__slots__) or not isinstance(value["pid"], int):
            raise ValueError(f"{path}: expected {', '.join(Status.__slots__)}, with a whole number as pid")
        status = Status(**value)
        unfinished = status.state in ("starting", "warming", "running")
        if unfinished and status.host == socket.gethostname() and not _alive(status.pid):
            return Status("interrupted", *(getattr(status, name) for name in Status.__slots__[1:]))
        return status

    def append_metrics(self, stage: str, iteration: int, metrics: dict[str, float]) -> None:
        """Add a line to metrics.jsonl; numbers that are not finite become null."""
        line = {"stage": stage, "iteration": iteration, "time": time.time()}
        line |= {k: v if math.isfinite(v) else None for k, v in metrics.items()}
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_metrics(self, stage: str | None = None) -> list[dict[str, Any]]:
        """The records of a stage ("warm", "train", "eval"), or all; a torn last line is left out."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        records = []
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if stage is None or record["stage"] == stage:
                    records.append(record)
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"{path}: line {number} is not a JSON object with a stage") from None
        return records

    def drop_after(self, iteration: int) -> None:
        """Forget records and steps of later iterations: the run resumes here and makes them anew."""
        kept = [record for record in self.read_metrics() if record["iteration"] <= iteration]
        self._write_text("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept))
        for later in self.iterations_with_steps():
            if later > iteration:
                self.steps_path(later).unlink()

    def steps_path(self, iteration: int) -> Path:
        return self.path / "steps" / f"{iteration:06d}.parquet"

    def iterations_with_steps(self) -> list[int]:
        """Iterations whose steps are on disk, ascending; 0 holds the demonstrations."""
        stems = (path.stem for path in (self.path / "steps").glob("*.parquet"))
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())

    def recorded_iteration(self, iteration: int | None = None) -> int | None:
        """`iteration` if its steps are on disk, else a ValueError; without it the last, None if there is
        none."""
        recorded = self.iterations_with_steps()
        if not recorded:
            return None
        if iteration is not None and iteration not in recorded:
            raise ValueError(f"iteration: {iteration}; recorded are {recorded[0]} to {recorded[-1]}")
        return recorded[-1] if iteration is None else iteration

    def write_steps(
        self,
        iteration: int,
        trajectories: Sequence[Trajectory],
        table: StepTable,
        credit: Credit,
        old_logprobs: Sequence[np.ndarray],
    ) -> None:
        """Write an iteration's steps once; see gagpo.steps_file for the columns."""
        from gagpo.steps_file import write_steps  # pyarrow, which reading a status does not need

        self.steps_path(iteration).parent.mkdir(exist_ok=True)
        write_steps(self.steps_path(iteration), trajectories, table, credit, old_logprobs)

    def request_stop(self) -> None:
        """Ask the training process to save and stop; it looks at the end of every iteration."""
        (self.path / "stop").touch()

    def stop_requested(self) -> bool:
        return (self.path / "stop").exists()

    def clear_stop(self) -> None:
        (self.path / "stop").unlink(missing_ok=True)

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        self._write_text(name, json.dumps(value, indent=1) + "\n")

    def _write_text(self, name: str, text: str) -> None:
        aside = self.path / f".{name}.{os.getpid()}"
        with aside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self.path / name)

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            value = json.loads(path.read_text())
        except FileNotFoundError:
            raise ValueError(f"{path}: missing; is this a run folder?") from None
        except ValueError as error:
            raise ValueError(f"{path}: not valid JSON ({error})") from None
        if not isinstance(value, dict):
            raise ValueError(f"{path}: {type(value).__name__}; expected a JSON object")
        return value


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
