"""The command line: `gagpo train runs/<id>` runs or resumes the run that request.json asks for;
`gagpo import FILE --out runs/<id>` makes a run folder of recorded trajectories; `gagpo annotations
runs/<id>` tells what reviewers wrote."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from gagpo.annotations_command import add_arguments as add_annotations_arguments
from gagpo.annotations_command import annotations_command
from gagpo.importers.command import add_arguments as add_import_arguments
from gagpo.importers.command import import_command
from gagpo.store import Run, RunLocked, Stopped


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 0 when the run is complete or was stopped, 1 when it failed."""
    parser = argparse.ArgumentParser(prog="gagpo", description="GAGPO Workbench")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="run or resume the run in a folder")
    train.add_argument("run", type=Path, help="folder of the run, with its request.json")
    train.add_argument("--parent", type=int, help="stop when this process is gone")
    importing = commands.add_parser("import", help="recorded trajectories as a run folder, with credit")
    add_import_arguments(importing)
    annotations = commands.add_parser("annotations", help="progress, agreement and export of a review")
    add_annotations_arguments(annotations)
    arguments = parser.parse_args(argv)
    if arguments.command == "import":
        return answered(import_command, arguments)
    if arguments.command == "annotations":
        return answered(annotations_command, arguments)
    return train_run(Run(arguments.run), arguments.parent)


def answered(command: Callable[[argparse.Namespace], str], arguments: argparse.Namespace) -> int:
    """Print what the command answers with, or what is wrong."""
    try:
        print(command(arguments))
    except (ValueError, OSError, RunLocked) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def train_run(run: Run, parent: int | None = None) -> int:
    """Train until the run is complete or asked to stop, keeping status.json true."""
    terminated: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: terminated.append(number))
    try:
        with run.lock():
            return _train_locked(run, parent, terminated)
    except RunLocked as error:
        print(error, file=sys.stderr)
        return 1


def _train_locked(run: Run, parent: int | None, terminated: list[int]) -> int:
    if parent is None:
        run.clear_stop()  # else whoever started it has, and may have asked to stop since
    config = run.read_request()
    run.write_status("starting", 0, config.run.iterations)
    try:
        if run.has_config():
            run.check_same(config)
        from gagpo.facts import facts  # torch is heavy: after the settings are known to be good
        from gagpo.train import Trainer

        run.write_config(config, facts())
        Trainer(run, config, _should_stop(run, parent, terminated)).train()
    except Stopped as reason:
        _say(run, "stopped", str(reason))
        return 0
    except Exception as error:
        traceback.print_exc()
        _say(run, "failed", f"{type(error).__name__}: {error}")
        return 1
    run.write_status("complete", config.run.iterations, config.run.iterations)
    return 0


def _should_stop(run: Run, parent: int | None, terminated: list[int]) -> Callable[[], str | None]:
    def reason() -> str | None:
        if terminated:
            return "terminated by a signal"
        if parent is not None and os.getppid() != parent:
            return f"the process that started it ({parent}) is gone"
        return "stop was requested" if run.stop_requested() else None

    return reason


def _say(run: Run, state: str, message: str) -> None:
    """End the status where the run was."""
    reached = run.read_status()
    run.write_status(state, reached.iteration, reached.iterations, message)


if __name__ == "__main__":
    sys.exit(main())
