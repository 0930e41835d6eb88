"""The learning benchmark: what it chooses, what it shares, what it says of known numbers."""

import csv
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from gagpo.store import open_run

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import learning
import learning_report
from line_figure import Panel, draw

ROOT = Path(__file__).parents[1]
TINY = {
    "num_receptacles": 4,
    "num_objects": 3,
    "max_steps": 6,
    "num_tasks": 2,
    "num_siblings": 3,
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "num_threads": 1,
    "warm_episodes": 8,
    "warm_updates": 5,
    "warm_batch": 8,
    "iterations": 2,
    "eval_every": 1,
    "eval_tasks": 2,
    "final_eval_tasks": 2,
    "checkpoint_every": 1000,
}


def record(runs_dir: Path, job: learning.Job, evals, steps=(100.0,), norms=(1.0,), **last) -> None:
    """A finished run with the given success at its evaluations."""
    run = open_run(runs_dir, job.run_id)
    run.write_config(job.config(), {})
    run.append_metrics("eval", 0, {"success_rate": evals[0], "episode_length": 20.0})
    rows = zip(steps, norms, evals[1:], strict=True)
    for i, (num, norm, success) in enumerate(rows, 1):
        train = {"num_steps": num, "gradient_norm": norm, "advantage_iqr": 0.5, "advantage_above_one": 0.25}
        run.append_metrics("train", i, train | last)
        run.append_metrics("eval", i, {"success_rate": success, "episode_length": 20.0 - i})
    run.write_status("complete", len(steps), len(steps))


def record_tuning(runs_dir: Path, method: str, success: dict[float, tuple[float, float]]) -> None:
    for rate, values in success.items():
        for seed, value in zip(learning.TUNING_SEEDS, values, strict=True):
            record(runs_dir, learning.Job(method, rate, seed), (0.9, value))


def test_every_method_is_a_valid_configuration_with_a_name_of_its_own():
    names = {learning.Job(method, 1e-3, 0).run_id for method in learning.METHODS}
    assert len(names) == len(learning.METHODS) == 11
    plain = learning.Job("GAGPO", 1e-3, 0).config().to_flat()
    for method, settings in learning.METHODS.items():
        changed = {k for k, v in learning.Job(method, 1e-3, 0).config().to_flat().items() if plain[k] != v}
        assert changed == {*settings, "run_id"} - ({"estimator", "run_id"} if method == "GAGPO" else set())
    assert not set(learning.SEEDS) & set(learning.TUNING_SEEDS) and len(learning.SEEDS) >= 8


def test_the_rate_with_the_best_mean_over_tuning_seeds_is_chosen(tmp_path):
    lowest, low, middle, high = learning.RATES
    success = {lowest: (0.2, 0.2), low: (0.1, 0.8), middle: (0.5, 0.5), high: (0.9, 0.0)}
    record_tuning(tmp_path, "GRPO", success)
    assert learning.chosen_rate(tmp_path, "GRPO") == middle  # .2, .45, .5, .45; the start does not count
    (tmp_path / learning.Job("GRPO", high, learning.TUNING_SEEDS[0]).run_id / "status.json").unlink()
    assert learning.chosen_rate(tmp_path, "GRPO") is None
    assert list(tmp_path.glob("gigpo*")) == [] and learning.chosen_rate(tmp_path, "GiGPO") is None
    assert list(tmp_path.glob("gigpo*")) == []  # asking makes no folders


def test_a_shared_warm_start_changes_no_number(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "SETTINGS", TINY)
    ours, theirs = learning.Job("GAGPO", learning.RATES[0], 0), learning.Job("GRPO", learning.RATES[1], 0)
    learning.play(tmp_path / "alone", [theirs], 1)
    learning.play(tmp_path / "shared", [ours, theirs], 1)
    alone, shared = (learning.finished(tmp_path / name, theirs) for name in ("alone", "shared"))
    assert "warming" not in (shared.path / "train.log").read_text()
    times = ("time", "peak_memory_mb")

    def numbers(run, stage):
        rows = run.read_metrics(stage)
        return [{k: v for k, v in r.items() if k not in times and not k.endswith("_s")} for r in rows]

    for stage in ("train", "eval"):
        assert numbers(alone, stage) == numbers(shared, stage) != []
    assert (shared.path / "checkpoints" / "000000").is_dir()
    before = (shared.path / "metrics.jsonl").read_bytes()
    learning.play(tmp_path / "shared", [ours, theirs], 2)  # whole runs are not repeated
    assert (shared.path / "metrics.jsonl").read_bytes() == before


def test_runs_that_fail_are_named_and_the_others_finished(tmp_path):
    """A folder that was begun with other settings is refused before anything is trained."""
    job = learning.Job("GAGPO", 1e-3, 0)
    open_run(tmp_path, job.run_id).write_config(learning.Job("GRPO", 1e-3, 0).config(), {})
    with pytest.raises(RuntimeError, match=r"gagpo-lr0.001-s0.*train.log"):
        learning.play(tmp_path, [job], 1)
    assert "begun with other settings" in (tmp_path / job.run_id / "train.log").read_text()


@pytest.fixture
def two_methods(tmp_path):
    """GAGPO with success .2 -> .4 -> .8 after 100 and 300 steps; GRPO with half the gain, 2 seeds each."""
    for method, evals in (("GAGPO", (0.2, 0.4, 0.8)), ("GRPO", (0.2, 0.3, 0.5))):
        record_tuning(tmp_path, method, {rate: (rate, rate) for rate in learning.RATES})
        for seed in (0, 1):
            job = learning.Job(method, learning.RATES[-1], seed)
            record(tmp_path, job, evals, steps=(100.0, 200.0), norms=(1.0, 3.0))
    return tmp_path


def test_a_run_is_read_by_hand(two_methods):
    result = learning_report.compared(two_methods)["GAGPO"][0]
    assert result.steps.tolist() == [0, 100, 300]
    assert result.score(200) == pytest.approx(0.6)
    # Two trapezia: .3 over the first 100 steps, .6 over the other 200.
    assert result.area(300) == pytest.approx((0.3 * 100 + 0.6 * 200) / 300, abs=2e-3)
    assert result.roughness == 1.0  # |3 - 1| / 2
    assert (result.advantage_iqr, result.above_one) == (0.5, 0.25)


def test_tables_say_what_the_runs_say(two_methods):
    results = learning_report.compared(two_methods)
    head, gagpo, grpo = learning_report.summary(results, 300)
    assert gagpo[:2] == ["GAGPO", "2"] and gagpo[2] == "20.0 [20.0, 20.0]"
    assert dict(zip(head, gagpo, strict=True))["half way"] == "50.0 [50.0, 50.0]"
    assert dict(zip(head, grpo, strict=True))["at the budget"] == "50.0 [50.0, 50.0]"
    assert dict(zip(head, grpo, strict=True))["length"] == "18.00 [18.00, 18.00]"
    assert learning_report.improvements(results, 300)[1] == ["GRPO", *["1.00 [1.00, 1.00]"] * 2]
    chosen = learning_report.tuning(two_methods)[1]
    assert [c.startswith("**") for c in chosen[1:]] == [False, False, False, True]


def test_the_report_is_written_below_its_heading_only(two_methods, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "learning.md").write_text("# Words\n\n## Tables\nold\n")
    learning_report.write_report(two_methods, out)
    text = (out / "learning.md").read_text()
    assert text.startswith("# Words\n\n## Tables\n") and "old" not in text and "300 environment" in text
    lines = (out / "learning.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 3 and lines[3] == "GAGPO,0.004,0,300,0.800000,18.000000"
    assert (out / "learning.svg").read_text().count("<polygon") == 4


def test_runs_that_began_differently_are_not_compared(two_methods):
    job = learning.Job("GRPO", learning.RATES[-1], 2)
    record(two_methods, job, (0.1, 0.5, 0.5), (1.0, 1.0), (1.0, 1.0))
    record(two_methods, learning.Job("GAGPO", learning.RATES[-1], 2), (0.3, 0.5, 0.5), (1.0, 1.0), (1.0, 1.0))
    with pytest.raises(ValueError, match=r"seed 2: starts at \[0.1, 0.3\]"):
        learning_report.check_starts(learning_report.compared(two_methods))


def recorded_results() -> dict[str, list[learning_report.Result]]:
    """The runs of docs/results/learning.csv; what the file does not tell is NaN."""
    with (ROOT / "docs" / "results" / "learning.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, list[learning_report.Result]] = {}
    for (method, rate, seed), own in itertools.groupby(
        rows, lambda row: (row["method"], float(row["learning_rate"]), int(row["seed"]))
    ):
        columns = np.array([[float(r[c]) for c in ("env_steps", "success", "episode_length")] for r in own]).T
        job = learning.Job(method, rate, seed)
        found.setdefault(method, []).append(learning_report.Result(job, *columns, *[float("nan")] * 3))
    return found


def test_the_pages_say_what_the_recorded_runs_say():
    results = recorded_results()
    learning_report.check_starts(results)
    budget = min(r.steps[-1] for found in results.values() for r in found)
    head, *rows = learning_report.summary(results, budget)
    page = (ROOT / "docs" / "results" / "learning.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{budget:,.0f} environment steps" in page and f"{budget:,.0f} environment steps" in readme
    shown = ("method", "half way", "at the budget", "last", "length")
    for row in rows:
        assert "| " + " | ".join(row) + " |" in page
        if row[0] in learning.BASELINES:
            cells = dict(zip(head, row, strict=True))
            assert "| " + " | ".join(cells[name] for name in shown) + " |" in readme
    for row in learning_report.improvements(results, budget)[1:]:
        assert "| " + " | ".join(row) + " |" in page


def test_lines_stand_where_their_numbers_are():
    panel = Panel(
        "x", {"a": [(0, 0.5, 0.25, 0.75), (10, 1.0, 1.0, 1.0)]}, [(0, "0"), (10, "10")], [(0, "0"), (1, "1")]
    )
    svg = draw("t", [panel], {"a": ("#000000", "")})
    assert '<polyline points="46.0,159.0 316.0,34.0"' in svg  # the middle, then the upper right corner
    assert '<polyline points="46.0,221.5 46.0,96.5"' in svg  # the interval of the first point
    assert np.all([name in svg for name in (">x<", ">t<", ">a<")])
