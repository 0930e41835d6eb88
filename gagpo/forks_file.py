"""Returns of forks as JSON lines that are only ever added to, so that a killed job goes on.

The first line holds the settings under which the returns were sampled. A last line that a kill tore
is dropped, and played again. The file has one writer at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

VERSION = 1


class ForksFile:
    """A context manager. `known` holds {name of a fork: returns}; without a path nothing is kept."""

    def __init__(self, path: str | Path | None, settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.settings = {"forks_version": VERSION, **settings}
        self.known: dict[str, np.ndarray] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> ForksFile:
        if self.path is None:
            return self
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()  # and with it the lock

    def add(self, returns: Mapping[str, np.ndarray]) -> None:
        """Keep the returns of these forks, flushed to the disk."""
        self.known |= returns
        lines = [{"fork": name, "returns": values.tolist()} for name, values in returns.items()]
        self._append(lines)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"path: {self.path} is being written by another process") from None

    def _read(self) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole = text.rfind(b"\n") + 1
        self._file.truncate(whole)
        lines = text[:whole].split(b"\n")[:-1]
        if not lines:
            self._append([self.settings])
            return
        try:
            settings = json.loads(lines[0])
        except ValueError:
            settings = None
        if settings != self.settings:
            raise ValueError(
                f"path: {self.path} begins with {lines[0][:200].decode(errors='replace')}; "
                f"expected {json.dumps(self.settings)}"
            )
        for number, line in enumerate(lines[1:], 2):
            self._take(number, line)

    def _take(self, number: int, line: bytes) -> None:
        num = self.settings.get("num_rollouts")
        try:
            record = json.loads(line)
            name, returns = record["fork"], np.array(record["returns"], np.float64)
        except (ValueError, TypeError, KeyError):
            name, returns = None, np.zeros(0)
        if not isinstance(name, str) or returns.shape != (num,) or not np.all(np.isfinite(returns)):
            raise ValueError(f"{self.path}: line {number} is not a fork with {num} finite returns")
        self.known[name] = returns

    def _append(self, lines: list[Mapping[str, Any]]) -> None:
        if self._file is None:
            return
        self._file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
