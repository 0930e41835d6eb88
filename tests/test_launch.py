"""Launching and following, with stand-ins for the training process whose every move is known."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from gagpo.__main__ import train_run
from gagpo.config import Config
from gagpo.launch import default_runs_dir, gather_parameters, run_and_follow, start_training
from gagpo.store import Run, open_run

TRAINER = """
import os, signal, sys, time
from gagpo.store import Run
run = Run(sys.argv[1])
assert sys.argv[2:] == ["--parent", str(os.getppid())]
config = run.read_request()
run.write_config(config, {})
run.write_status("running", 0, config.run.iterations)
BODY
"""


def trainer(tmp_path: Path, body: str) -> list[str]:
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER.replace("BODY", body))
    return [sys.executable, str(script)]


COMPLETE = """
for i in (1, 2):
    run.append_metrics("train", i, {"success_rate": i / 2})
    time.sleep(0.2)
run.write_status("complete", 2, 2)
"""


def test_a_run_is_followed_to_its_end_and_not_started_again(tmp_path: Path) -> None:
    run, config = open_run(tmp_path, "r"), Config.from_flat({"iterations": 2})
    seen: list[int] = []

    def show(run: Run) -> None:
        seen.append(len(run.read_metrics()))

    status = run_and_follow(run, config, show, 0.02, trainer(tmp_path, COMPLETE))
    assert (status.state, status.iteration) == ("complete", 2)
    assert seen == sorted(seen) and seen[-1] == 2 and 1 in seen, "told as it happened"
    again = run_and_follow(run, config, show, 0.02, trainer(tmp_path, "raise SystemExit(5)"))
    assert again.state == "complete"
    longer = Config.from_flat({"iterations": 3})
    with pytest.raises(RuntimeError, match="exit status 5"):
        run_and_follow(run, longer, show, 0.02, trainer(tmp_path, "raise SystemExit(5)"))


def test_a_failure_is_raised_with_its_message_and_the_log(tmp_path: Path) -> None:
    body = 'print("the last words"); run.write_status("failed", 1, 2, "ValueError: gamma"); sys.exit(1)'
    with pytest.raises(RuntimeError, match=r"training failed: ValueError: gamma\n(.|\n)*the last words"):
        run_and_follow(open_run(tmp_path, "r"), Config(), lambda _: None, 0.02, trainer(tmp_path, body))


def test_a_killed_trainer_is_a_failure(tmp_path: Path) -> None:
    command = trainer(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    run = open_run(tmp_path, "r")
    run.write_status("failed", 0, 1, "what an earlier process said")
    with pytest.raises(RuntimeError, match="training failed: its process was killed by signal 9\n"):
        run_and_follow(run, Config(), lambda _: None, 0.02, command)
    assert run.read_status().state == "interrupted"


def test_the_message_of_an_earlier_process_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.write_status("failed", 0, 1, "what an earlier process said")
    with pytest.raises(RuntimeError, match="training failed: exit status 5\n"):
        run_and_follow(run, Config(), lambda _: None, 0.02, [sys.executable, "-c", "raise SystemExit(5)"])


def test_a_run_that_cannot_be_shown_is_stopped(tmp_path: Path) -> None:
    def show(run: Run) -> None:
        raise OSError("the display is gone")

    run = open_run(tmp_path, "r")
    with pytest.raises(OSError, match="the display is gone"):
        run_and_follow(run, Config(), show, 0.02, trainer(tmp_path, COMPLETE))
    assert run.stop_requested()


def test_a_stop_during_start_up_is_kept(tmp_path: Path) -> None:
    """The trainer takes an old stop back only where no launcher has done so before it."""
    run = open_run(tmp_path, "r")
    for parent, kept in ((os.getpid(), True), (None, False)):
        run.write_request(Config.from_flat({"env": "none"}))
        run.request_stop()
        assert train_run(run, parent) == 1  # no such world: it ends before it would look at the stop
        assert run.stop_requested() == kept


def test_an_interrupt_stops_the_run_and_waits_for_it(tmp_path: Path) -> None:
    body = """
while not run.stop_requested():
    time.sleep(0.01)
run.append_metrics("train", 1, {})
run.write_status("stopped", 1, 2, "stop was requested")
"""
    calls = []

    def show(run: Run) -> None:
        calls.append(len(run.read_metrics()))
        if len(calls) == 1:
            raise KeyboardInterrupt

    run = open_run(tmp_path, "r")
    status = run_and_follow(run, Config(), show, 0.02, trainer(tmp_path, body))
    assert str(status) == "stopped after iteration 1 of 2: stop was requested; the same settings resume it"
    assert calls[-1] == 1
    run_and_follow(
        run, Config(), lambda _: None, 0.02, trainer(tmp_path, 'run.write_status("complete", 2, 2)')
    )
    assert not run.stop_requested(), "a new start takes the stop back"


def test_a_begun_run_with_other_settings_starts_nothing(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.write_config(Config(), {})
    run.write_status("complete", 1, 1)
    with pytest.raises(ValueError, match=r"gamma was 0\.95 and is now 0\.5"):
        start_training(run, Config.from_flat({"gamma": 0.5}), ["false"])
    assert not (run.path / "request.json").exists() and run.read_status().state == "complete"


def test_following_bears_files_that_are_being_written(tmp_path: Path) -> None:
    """A writer tears lines and replaces the status as fast as it can, while the follower reads."""
    run = open_run(tmp_path, "r")
    done = threading.Event()

    def write() -> None:
        with (run.path / "metrics.jsonl").open("a") as file:
            while not done.is_set():
                for part in ('{"stage": "train", ', '"iteration": 1}', "\n"):
                    file.write(part)
                    file.flush()
                run.write_status("running", 1, 2)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert all(record["iteration"] == 1 for record in run.read_metrics())
            status = run.read_status()
            assert status is None or status.pid == os.getpid()
    finally:
        done.set()
        writer.join()


def test_parameters_are_gathered_from_a_notebook() -> None:
    before = {"Config", "widgets"}
    namespace = {"Config": Config, "widgets": os, "before": before, "gamma": 0.5, "games": None, "_i3": "x"}
    namespace |= {"task_types": ["a"], "runs_dir": None, "run": object(), "run_id": "mine"}
    gathered = gather_parameters(namespace, before)
    assert gathered == {"gamma": 0.5, "games": None, "task_types": ["a"], "run_id": "mine"}
    assert gather_parameters({"run_id": ""}, set())["run_id"].startswith("smoke-20")


def test_settings_count_when_all_cells_are_run_again_in_one_kernel() -> None:
    namespace = {"widgets": os, "gamma": 0.5, "iterations": 2, "run_id": "mine", "scratch": 3}
    gathered = gather_parameters(namespace, before=set(namespace))
    assert gathered == {"gamma": 0.5, "iterations": 2, "run_id": "mine"}


def test_a_misspelt_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"unknown parameter 'gama'; did you mean 'gamma'\?"):
        gather_parameters({"gamma": 1.0, "gama": 0.9}, set())


def test_runs_lie_in_the_checkout() -> None:
    assert default_runs_dir() == Path(__file__).resolve().parents[1] / "runs"
