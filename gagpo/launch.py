"""Starting a training process of its own and following it by its files. No torch here.

A notebook's kernel that trained by itself could neither be watched nor stopped. So the notebook
asks for a run, looks at the run folder while another process fills it, and stops it by a file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import gagpo
from gagpo.config import Config, section_of
from gagpo.store import Run, Status

LOG_TAIL = 2000  # characters of train.log that an error shows
NOTEBOOK_PARAMETERS = ("runs_dir",)  # of the notebook, not of the run
PLAIN = (str, bool, int, float, list, tuple, dict)


def gather_parameters(
    namespace: Mapping[str, Any], before: set[str], own: Sequence[str] = NOTEBOOK_PARAMETERS
) -> dict[str, Any]:
    """The settings among a notebook's variables, by name; an empty run_id becomes a fresh one.

    `before` holds the names that existed before the parameters cell. A public name with a plain
    value that came since is a parameter, and one that is no setting and not among the notebook's
    `own` is refused: that is how a misspelt `papermill -p` is found, of which papermill itself only
    logs a line. When all cells are run again in one kernel the settings are old names; they count
    wherever they came from.
    """
    known = [*section_of(), *own]
    for name, value in namespace.items():
        plain = value is None or isinstance(value, PLAIN)
        if name in before or name in known or name.startswith("_") or not plain:
            continue
        near = get_close_matches(name, known, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown parameter {name!r}{hint}")
    settings = {name: namespace[name] for name in section_of() if name in namespace}
    return settings | {"run_id": settings.get("run_id") or time.strftime("smoke-%Y%m%d-%H%M%S")}


def default_runs_dir() -> Path:
    """`runs` of the checkout that this package lies in, or else of the working directory."""
    checkout = Path(gagpo.__file__).resolve().parents[1]
    return (checkout if (checkout / "pyproject.toml").exists() else Path.cwd()) / "runs"


def start_training(run: Run, config: Config, command: Sequence[str] | None = None) -> subprocess.Popen:
    """Write request.json and start the process that trains; its output goes to train.log.

    Raises ValueError when the run was begun with other settings. `command` replaces
    `python -m gagpo train`.
    """
    if run.has_config():
        run.check_same(config)
    run.write_request(config)
    run.clear_stop()
    command = command or (sys.executable, "-m", "gagpo", "train")
    with (run.path / "train.log").open("ab") as log:
        # A session of its own: an interrupt of the notebook must not end it in mid-write.
        return subprocess.Popen(
            [*command, str(run.path), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run_and_follow(
    run: Run,
    config: Config,
    show: Callable[[Run], None],
    every_s: float = 1.0,
    command: Sequence[str] | None = None,
) -> Status:
    """Train until the run is complete or stopped, calling `show` whenever there is something new.

    A run that is complete already returns at once. An interrupt (the stop button) asks the run to
    stop, waits for it and returns; any other error in `show` asks it to stop and is raised. Raises
    RuntimeError when training failed or was killed.
    """
    status = run.read_status()
    if status and status.state == "complete" and run.read_config() == config:
        show(run)
        return status
    process = start_training(run, config, command)
    try:
        _watch(run, process, show, every_s)
    except KeyboardInterrupt:
        run.request_stop()
        _watch(run, process, show, every_s)
    except Exception:
        run.request_stop()  # nobody would follow it: it saves, and can be resumed
        raise
    status = run.read_status()
    if process.returncode or status is None or status.state not in ("complete", "stopped"):
        raise RuntimeError(
            f"training failed: {_reason(process, status)}\n--- end of train.log\n{_log_tail(run)}"
        )
    return status


def _watch(run: Run, process: subprocess.Popen, show: Callable[[Run], None], every_s: float) -> None:
    seen = -1
    while True:
        ended = process.poll() is not None
        size = _size(run.path / "metrics.jsonl")
        if size != seen:
            show(run)
            seen = size
        if ended:
            return
        time.sleep(every_s)


def _reason(process: subprocess.Popen, status: Status | None) -> str:
    """What the process said of its end; a status that another one left does not count."""
    if status and status.message and status.pid == process.pid:
        return status.message
    if process.returncode < 0:
        return f"its process was killed by signal {-process.returncode}"
    return f"exit status {process.returncode}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _log_tail(run: Run) -> str:
    path = run.path / "train.log"
    return path.read_text(errors="replace")[-LOG_TAIL:] if path.exists() else "(none)"
