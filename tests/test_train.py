"""Whole runs, small: what they record, that they resume bit for bit, and how they end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gagpo.__main__ import train_run
from gagpo.config import Config
from gagpo.credit import assign_credit
from gagpo.envs.base import WORLDS
from gagpo.steps_file import read_credit, read_steps, read_trajectories, step_table
from gagpo.store import Run, open_run

SMALL = {
    "num_tasks": 2,
    "num_siblings": 4,
    "max_steps": 8,
    "num_receptacles": 5,
    "num_objects": 3,
    "task_types": ["pick_and_place_simple", "look_at_obj_in_light"],
    "hidden_size": 32,
    "num_layers": 1,
    "num_heads": 2,
    "history": 3,
    "warm_updates": 12,
    "warm_episodes": 12,
    "warm_batch": 16,
    "eval_tasks": 3,
    "final_eval_tasks": 4,
    "eval_every": 2,
    "checkpoint_every": 2,
    "iterations": 5,
    "num_threads": 1,
}
LISTED = {
    *("success_rate", "return_mean", "episode_length", "invalid_share", "cut_off_share"),
    *("advantage_mean", "advantage_std", "advantage_iqr", "advantage_above_one", "singleton_share"),
    *("anchor_size_mean", "anchor_size_max", "zero_sigma_share", "ratio_mean", "ratio_max"),
    *("clip_fraction", "kl_k1", "kl_k3", "entropy", "gradient_norm", "num_tokens", "collect_s"),
    *("score_s", "credit_s", "update_s", "record_s", "iteration_s", "peak_memory_mb", "sampler_gap_max"),
}
TIMES = {"time", "peak_memory_mb"}


def request(folder: Path, **settings) -> Run:
    run = open_run(folder, "run")
    run.write_request(Config.from_flat(SMALL | settings))
    return run


def command(run: Run, *more: str) -> list[str]:
    return [sys.executable, "-m", "gagpo", "train", str(run.path), *more]


def digest(run: Run) -> str:
    """Of the last checkpoint: weights, optimiser and counters."""
    folder = max((run.path / "checkpoints").iterdir())
    return hashlib.sha256(b"".join(p.read_bytes() for p in sorted(folder.iterdir()))).hexdigest()


def records(run: Run) -> list[dict]:
    """The metrics, but for what a clock or a process decides."""
    return [
        {k: v for k, v in record.items() if k not in TIMES and not k.endswith("_s")}
        for record in run.read_metrics()
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = request(tmp_path_factory.mktemp("runs"))
    assert subprocess.run(command(run), timeout=200).returncode == 0
    return run


def test_a_run_records_what_it_did(finished: Run) -> None:
    status = finished.read_status()
    assert (status.state, status.iteration) == ("complete", 5)
    train = finished.read_metrics("train")
    assert [record["iteration"] for record in train] == [1, 2, 3, 4, 5]
    assert all(record.get(name) is not None for record in train for name in LISTED)
    evaluations = finished.read_metrics("eval")
    assert [(r["iteration"], r["num_tasks"]) for r in evaluations] == [(0, 4), (2, 3), (4, 3), (5, 4)]
    assert "success_rate/look_at_obj_in_light" in evaluations[0]
    warm = finished.read_metrics("warm")
    assert warm[-1]["update"] == 12 and warm[-1]["clone_loss"] < warm[1]["clone_loss"]
    assert finished.iterations_with_steps() == [0, 1, 2, 3, 4, 5]
    assert finished.read_facts()["versions"]["torch"]
    assert (finished.path / "policy" / "model.safetensors").exists()


def test_the_recorded_credit_follows_from_the_recorded_steps(finished: Run) -> None:
    config = finished.read_config()
    for iteration in (1, 5):
        rows = read_steps(finished.steps_path(iteration))
        table, credit = step_table(rows), read_credit(rows)
        again = assign_credit(table, config.credit)
        assert np.array_equal(again.normalized, credit.normalized)
        assert np.array_equal(again.value, credit.value)
        trajectories = read_trajectories(rows)
        assert len(trajectories) == 8 and len({t.task_id for t in trajectories}) == 2
        metrics = finished.read_metrics("train")[iteration - 1]
        assert metrics["success_rate"] == np.mean([t.success for t in trajectories])
        assert metrics["num_steps"] == sum(len(t.steps) for t in trajectories)


def test_a_killed_run_resumes_bit_for_bit(finished: Run, tmp_path: Path) -> None:
    """SIGKILL in the midst of an iteration after the second; the rest is as if it had not been."""
    run = request(tmp_path)
    process = subprocess.Popen(command(run))
    deadline = time.monotonic() + 120
    while not any(r["iteration"] == 3 for r in run.read_metrics("train")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert run.read_status().state == "interrupted"
    assert (run.path / "checkpoints" / "000002").exists()
    assert subprocess.run(command(run), timeout=200).returncode == 0
    assert digest(run) == digest(finished)
    assert records(run) == records(finished)
    for iteration in finished.iterations_with_steps():
        ours, theirs = (read_steps(r.steps_path(iteration)) for r in (run, finished))
        assert ours.equals(theirs)


def test_a_longer_run_is_the_shorter_one_continued(finished: Run, tmp_path: Path) -> None:
    run = request(tmp_path, iterations=3)
    assert subprocess.run(command(run), timeout=200).returncode == 0
    run.write_request(Config.from_flat(SMALL))
    assert subprocess.run(command(run), timeout=200).returncode == 0
    assert digest(run) == digest(finished)


def test_a_complete_run_started_again_does_nothing(finished: Run) -> None:
    before = digest(finished), records(finished)
    assert subprocess.run(command(finished), timeout=100).returncode == 0
    assert (digest(finished), records(finished)) == before
    assert finished.read_status().state == "complete"


def test_other_settings_are_refused_for_a_begun_run(finished: Run) -> None:
    finished.write_request(Config.from_flat(SMALL | {"gamma": 0.5}))
    try:
        result = subprocess.run(command(finished), capture_output=True, text=True, timeout=100)
        assert result.returncode == 1
        status = finished.read_status()
        assert status.state == "failed" and "gamma was 0.95 and is now 0.5" in status.message
    finally:
        finished.write_request(Config.from_flat(SMALL))
        subprocess.run(command(finished), timeout=100, check=True)


def wait_for(run: Run, iteration: int) -> None:
    deadline = time.monotonic() + 120
    while not any(r["iteration"] >= iteration for r in run.read_metrics("train")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["stop file", "SIGTERM", "parent gone"])
def test_a_run_saves_and_stops_when_asked(how: str, tmp_path: Path) -> None:
    run = request(tmp_path, iterations=10_000, checkpoint_every=1000)
    if how == "parent gone":
        # A shell in between starts the trainer and is then killed: to the trainer its parent is gone.
        code = "import os, subprocess, sys; subprocess.run([*sys.argv[1:], '--parent', str(os.getpid())])"
        process = subprocess.Popen([sys.executable, "-c", code, *command(run)])
    else:
        process = subprocess.Popen(command(run))
    wait_for(run, 1)
    trainer = run.read_status().pid
    if how == "stop file":
        run.request_stop()
    else:
        process.send_signal(signal.SIGTERM if how == "SIGTERM" else signal.SIGKILL)
    deadline = time.monotonic() + 60
    while run.read_status().state != "stopped":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.wait(timeout=30)
    status = run.read_status()
    reason = {"stop file": "stop was requested", "SIGTERM": "signal", "parent gone": "is gone"}[how]
    assert reason in status.message and status.pid == trainer
    last = run.read_metrics("train")[-1]["iteration"]
    assert (run.path / "checkpoints" / f"{last:06d}").exists(), "nothing that was done is lost"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run = request(tmp_path)
    with run.lock():
        result = subprocess.run(command(run), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and f"process {os.getpid()} on" in result.stderr
    assert run.read_status() is None, "the holder's status is left alone"


def test_a_failure_is_told_in_the_status(tmp_path: Path) -> None:
    run = request(tmp_path, env="housold")
    assert train_run(run) == 1
    status = run.read_status()
    assert status.state == "failed" and "did you mean 'household'?" in status.message


@pytest.mark.parametrize("kl", ["k1", "k2", "k3"])
def test_runs_with_a_reference_policy_resume_bit_for_bit_too(kl: str, tmp_path: Path) -> None:
    digests = []
    for name, first in (("whole", 3), ("parts", 1)):
        run = request(tmp_path / name, iterations=first, kl=kl, kl_coef=0.1, checkpoint_every=1)
        assert train_run(run) == 0
        run.write_request(
            Config.from_flat(SMALL | dict(iterations=3, kl=kl, kl_coef=0.1, checkpoint_every=1))
        )
        assert train_run(run) == 0
        digests.append(digest(run))
        if kl != "k1":
            assert run.read_metrics("train")[-1]["ref_kl"] > 0
    assert digests[0] == digests[1]


def test_tensorboard_events_are_written_on_request(tmp_path: Path) -> None:
    run = request(tmp_path, tensorboard=True, iterations=1)
    assert train_run(run) == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    (recorded,) = events.Scalars("train/success_rate")
    assert recorded.step == 1
    assert recorded.value == pytest.approx(run.read_metrics("train")[0]["success_rate"])


def test_every_line_of_the_metrics_is_json_without_nan(finished: Run) -> None:
    for line in (finished.path / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in metrics"))


def test_official_games_are_trained_on_and_left_out_ones_counted(shared_dir: Path, tmp_path: Path) -> None:
    games = str(shared_dir / "data" / "alfworld" / "json_2.1.1")
    settings = {"env": "alfworld", "games": games, "task_types": [], "num_receptacles": 8, "num_objects": 6}
    run = request(tmp_path, iterations=1, warm_episodes=4, warm_updates=2, **settings)
    assert train_run(run) == 0
    assert run.read_metrics("warm")[0]["skipped/no game file"] == 3
    trajectories = read_trajectories(read_steps(run.steps_path(1)))
    assert {t.goal for t in trajectories} and all("trial_T2019" in t.task_id for t in trajectories)
    assert all(step.valid for t in trajectories for step in t.steps), "the tokenizer knows every word"


def test_environments_that_fail_cost_their_groups_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORLDS, "failing", "corridor:make_failing_world")
    settings = {"env": "failing", "task_types": [], "num_tasks": 6, "iterations": 2, "final_eval_tasks": 6}
    run = request(tmp_path, **settings)
    with pytest.warns(RuntimeWarning, match=r"task 'corridor-\w+-\d+' is left out: ZeroDivisionError"):
        assert train_run(run) == 0
    assert [r["failed_tasks"] for r in run.read_metrics("train")] == [2, 2]
    evaluation = run.read_metrics("eval")[-1]
    assert (evaluation["failed_tasks"], evaluation["num_tasks"]) == (2, 4)
    assert run.read_metrics("warm")[0]["failed_tasks"] == 4, "of 12 demonstrations"
    rows = read_steps(run.steps_path(2))
    assert len(read_trajectories(rows)) == 4 * 4, "four whole groups"
    assert all(int(t.task_id.rsplit("-", 1)[1]) % 3 for t in read_trajectories(rows))


def test_a_run_whose_environments_all_fail_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORLDS, "failing", "corridor:make_failing_world")
    monkeypatch.setattr("corridor.FailingWorld.EVERY", 1)
    run = request(tmp_path, env="failing", task_types=[])
    with pytest.warns(RuntimeWarning):
        assert train_run(run) == 1
    status = run.read_status()
    assert status.state == "failed" and "every task failed; the first, 'corridor-train-" in status.message


def test_environments_in_processes_of_their_own_change_no_number(tmp_path: Path) -> None:
    few = {"num_tasks": 1, "num_siblings": 2, "warm_episodes": 2, "warm_updates": 2, "iterations": 1}
    few |= {"final_eval_tasks": 1, "eval_every": 0, "max_steps": 4}
    runs = [request(tmp_path / str(limit), **few, env_time_limit_s=limit) for limit in (0.0, 60.0)]
    assert [train_run(run) for run in runs] == [0, 0]
    assert records(runs[0]) == records(runs[1])
    steps = [read_trajectories(read_steps(run.steps_path(1))) for run in runs]
    assert steps[0] == steps[1] and len(steps[0]) == 2
