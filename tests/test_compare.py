"""Runs side by side: literal numbers, and bands against a plain bootstrap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gagpo.aggregate import bootstrap, interquartile_curve
from gagpo.compare import advantage_quantiles, config_difference, curves
from gagpo.config import Config, CreditConfig
from gagpo.credit import assign_credit
from gagpo.store import Run, open_run
from gagpo.table import Outcome, Step, StepTable, Trajectory


def made(folder: Path, name: str, scores: dict[int, float | None], num_steps: int = 10, **settings) -> Run:
    run = open_run(folder, name)
    run.write_config(Config.from_flat({"run_id": name, **settings}), {})
    for iteration, score in scores.items():
        metrics = {"score": float("nan") if score is None else score, "num_steps": float(num_steps)}
        run.append_metrics("train", iteration, metrics)
    return run


def test_settings_that_differ(tmp_path: Path) -> None:
    runs = [
        made(tmp_path, "a", {}, seed=1),
        made(tmp_path, "b", {}, seed=2, gamma=0.5),
        made(tmp_path, "c", {}, seed=1, gamma=0.5, task_types=["x"]),
    ]
    found = [(d.section, d.name, d.values) for d in config_difference(runs)]
    assert found == [
        ("world", "task_types", ([], [], ["x"])),
        ("credit", "gamma", (0.95, 0.5, 0.5)),
        ("run", "seed", (1, 2, 1)),
    ]
    assert config_difference(runs[:1]) == config_difference([]) == ()


def test_curves_join_the_seeds_of_equal_settings(tmp_path: Path) -> None:
    runs = [
        made(tmp_path, "a0", {1: 0.0, 2: 1.0, 3: 2.0}, seed=0),
        made(tmp_path, "b0", {1: 5.0}, seed=0, gamma=0.5, lam=0.1),
        made(tmp_path, "a1", {1: 1.0, 2: 2.0}, seed=1, num_threads=2),
        made(tmp_path, "a2", {1: 2.0, 2: None, 3: 9.0, 4: 9.0}, seed=2),
        made(tmp_path, "a3", {}, seed=3),
    ]
    first, second = curves(runs, "score")
    assert first.runs == ("a0", "a1", "a2") and second.runs == ("b0",)
    assert first.settings == (("gamma", 0.95), ("lam", 0.8)) and second.settings == (
        ("gamma", 0.5),
        ("lam", 0.1),
    )
    assert first.x.tolist() == [1.0] and first.scores.tolist() == [[0.0], [1.0], [2.0]]
    assert first.estimate.tolist() == [1.0] and (first.low[0], first.high[0]) == (0.0, 2.0)
    assert second.x.tolist() == [1] and second.low == second.high == second.estimate == [5.0]
    without = curves([runs[0], runs[2]], "score")[0]
    assert without.x.tolist() == [1, 2] and without.estimate.tolist() == [0.5, 1.5]
    assert without.settings == ()


def test_bands_are_those_of_the_bootstrap(tmp_path: Path) -> None:
    scores = np.random.default_rng(3).random((6, 4))
    runs = [made(tmp_path, f"r{i}", dict(enumerate(own)), seed=i) for i, own in enumerate(scores.tolist())]
    (curve,) = curves(runs, "score", num_resamples=300, confidence=0.8, seed=5)
    expected = bootstrap(interquartile_curve, [scores], num_resamples=300, confidence=0.8, seed=5)
    for own, wanted in zip((curve.estimate, curve.low, curve.high), expected, strict=True):
        assert np.array_equal(own, wanted)
    assert np.allclose(curve.estimate, np.sort(scores, 0)[1:-1].mean(0)), (
        "without the best and the worst of six"
    )
    assert (curve.low < curve.estimate).all() and (curve.estimate < curve.high).all()


def test_curves_by_environment_steps(tmp_path: Path) -> None:
    """One run takes 10 steps an iteration, the other 20; both were measured from 20 to 40."""
    runs = [
        made(tmp_path, "slow", {1: 0.0, 2: 1.0, 3: 2.0, 4: 3.0}, num_steps=10),
        made(tmp_path, "fast", {1: 10.0, 2: 20.0, 3: 30.0}, num_steps=20, seed=1),
    ]
    (curve,) = curves(runs, "score", by="steps")
    assert curve.x.tolist() == [20, 30, 40]
    assert curve.scores.tolist() == [[1.0, 2.0, 3.0], [10.0, 15.0, 20.0]]
    for iteration in (0, 2, 4):
        runs[0].append_metrics("eval", iteration, {"success_rate": iteration / 4})
    (curve,) = curves(runs, "success_rate", by="steps", stage="eval")
    assert (curve.runs, curve.x.tolist(), curve.scores.tolist()) == (("slow",), [0, 20, 40], [[0, 0.5, 1]])


def test_runs_that_share_no_steps_or_iterations(tmp_path: Path) -> None:
    runs = [made(tmp_path, "a", {1: 0.0, 2: 0.0}), made(tmp_path, "b", {3: 1.0}, num_steps=100, seed=1)]
    for by in ("iteration", "steps"):
        (curve,) = curves(runs, "score", by=by)
        assert curve.scores.shape == (2, 0) and len(curve.x) == len(curve.low) == 0


def test_metrics_of_updates_count_only_where_something_was_trained_on(tmp_path: Path) -> None:
    run = made(tmp_path, "a", {})
    run.append_metrics("train", 1, {"entropy": 0.0, "num_trained": 0.0})
    run.append_metrics("train", 2, {"entropy": 0.5, "num_trained": 3.0})
    (curve,) = curves([run], "entropy")
    assert (curve.x.tolist(), curve.estimate.tolist()) == ([2], [0.5])


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    run = made(tmp_path, "a", {1: 0.0})
    with pytest.raises(ValueError, match="unknown metric 'scor'; did you mean 'score'"):
        curves([run], "scor")
    with pytest.raises(ValueError, match="by: 'time'; expected one of iteration, steps"):
        curves([run], "score", by="time")
    assert curves([run], "score", stage="eval") == () == curves([], "score")
    run.append_metrics("train", 2, {"score": 1.0})
    with pytest.raises(ValueError, match="run 'a': num_steps was not recorded"):
        curves([run], "score", by="steps")


def test_quantiles_of_advantages(tmp_path: Path) -> None:
    run = made(tmp_path, "a", {})
    for iteration, rewards in ((2, [0.0, 1.0, 2.0, 3.0, 4.0]), (10, [5.0])):
        steps = [Step("", str(i), (), "", (), (), (), r, True) for i, r in enumerate(rewards)]
        trajectories = [
            Trajectory("t", i, 0, (step,), Outcome.TERMINATED, True, "", "", "z")
            for i, step in enumerate(steps)
        ]
        table = StepTable.from_trajectories(trajectories)
        credit = assign_credit(table, CreditConfig(estimator="reinforce", normalize="none"))
        run.write_steps(iteration, trajectories, table, credit, [np.zeros(0, np.float32)] * len(steps))
    spread = advantage_quantiles(run, quantiles=(0.0, 0.5, 0.625, 1.0))
    assert spread.iteration.tolist() == [2, 10] and spread.num_steps.tolist() == [5, 1]
    assert spread.values.tolist() == [[0.0, 2.0, 2.5, 4.0], [5.0] * 4]
    assert advantage_quantiles(run, "value").values[0].tolist() == [0.0] * 5
    with pytest.raises(ValueError, match="unknown column 'normalised'; did you mean 'normalized'"):
        advantage_quantiles(run, "normalised")
    with pytest.raises(ValueError, match=r"quantiles: \(95,\); expected numbers from 0 to 1"):
        advantage_quantiles(run, quantiles=(95,))
    none = advantage_quantiles(made(tmp_path, "b", {}))
    assert none.values.shape == (0, 5) and none.iteration.tolist() == []
    run.steps_path(2).write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"000002\.parquet: not a readable Parquet file"):
        advantage_quantiles(run)
