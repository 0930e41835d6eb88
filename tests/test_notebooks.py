"""The notebooks: their text twins, their parameters, and how they take bad ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jupytext
import nbformat
import pytest

import widgets
from gagpo.config import Config, section_of
from gagpo.launch import gather_parameters
from gagpo.stats import OF_UPDATES
from gagpo.store import open_run

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TRAIN = ROOT / "notebooks" / "train.ipynb"
WORLDS = ROOT / "notebooks" / "worlds.ipynb"


def cells(notebook) -> list[tuple]:
    return [(c.cell_type, c.source.strip(), c.metadata.get("tags", [])) for c in notebook.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_and_its_text_hold_the_same_cells(path: Path) -> None:
    assert cells(nbformat.read(path, 4)) == cells(jupytext.read(path.with_suffix(".py")))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, 4).cells:
        assert cell.cell_type != "code" or (cell.outputs == [] and cell.execution_count is None)


def parameters() -> dict:
    (cell,) = [c for c in nbformat.read(TRAIN, 4).cells if "parameters" in c.metadata.get("tags", [])]
    namespace: dict = {}
    exec(cell.source, namespace)
    del namespace["__builtins__"]
    return namespace


def test_the_parameters_cell_covers_every_setting_and_its_values_are_valid() -> None:
    names = parameters()
    assert set(names) == {*section_of(), "runs_dir"}
    Config.from_flat(gather_parameters(names, set()))


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_hold_valid_settings(recipe: Path) -> None:
    import yaml

    settings = yaml.safe_load(recipe.read_text())
    config = Config.from_flat(gather_parameters(parameters() | settings, set()))
    assert {name: config.to_flat()[name] for name in settings} == settings


def command(output: Path, *more: str, notebook: Path = TRAIN) -> list[str]:
    return [sys.executable, "-m", "papermill", str(notebook), str(output), "--no-progress-bar", *more]


def papermill(output: Path, *more: str, notebook: Path = TRAIN, env=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(output, *more, notebook=notebook),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=output.parent,
        env=env,
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gamma", "abc", "gamma: 'abc' is str; expected float"),
        ("gama", "0.9", "unknown parameter 'gama'; did you mean 'gamma'?"),
        ("run_id", "../x", "run_id: '../x'; expected"),
    ],
)
def test_bad_parameters_stop_the_notebook_before_anything_runs(name, value, message, tmp_path: Path) -> None:
    start = time.monotonic()
    result = papermill(tmp_path / "out.ipynb", "-p", "runs_dir", str(tmp_path / "runs"), "-p", name, value)
    assert result.returncode != 0 and message in result.stderr
    assert time.monotonic() - start < 60, "seconds, on a machine that does nothing else"
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []


def test_the_training_notebook_runs_and_a_second_time_says_complete(tmp_path: Path) -> None:
    more = ["-p", "runs_dir", str(tmp_path), "-p", "run_id", "one", "--log-output"]
    first = papermill(tmp_path / "first.ipynb", *more)
    assert first.returncode == 0, first.stderr[-2000:]
    run = open_run(tmp_path, "one")
    assert run.read_status().state == "complete"
    written = (run.path / "metrics.jsonl").read_bytes()
    start = time.monotonic()
    second = papermill(tmp_path / "second.ipynb", *more)
    assert second.returncode == 0 and "complete after iteration 3 of 3" in second.stderr
    assert time.monotonic() - start < 60 and (run.path / "metrics.jsonl").read_bytes() == written
    for figure in (widgets.learning_curves(run), widgets.advantage_spread(run), widgets.phase_times(run)):
        curves = [trace for trace in figure.data if trace.type != "histogram"]
        assert curves and all(None not in trace.y and len(trace.y) >= 2 for trace in curves)
    assert set(OF_UPDATES) <= set(run.read_metrics("train")[0]), "what the picture of health is drawn from"
    notebook = nbformat.read(tmp_path / "first.ipynb", 4)
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    figures = [o for o in outputs if "application/vnd.plotly.v1+json" in o.get("data", {})]
    assert len(figures) == 5, "live curves, learning curves, advantages, health, times"
    assert sum(len(json.dumps(o)) for o in outputs) < 400_000, "a notebook that can be shared"
    assert not any(o.output_type == "error" for o in outputs)


def test_a_preempted_notebook_is_resumed_by_the_same_command(tmp_path: Path) -> None:
    """SIGTERM to papermill kills the kernel; the trainer notices, saves and ends."""
    more = ["-p", "runs_dir", str(tmp_path), "-p", "run_id", "one", "-p", "iterations", "10"]
    more += ["-p", "eval_every", "0", "-p", "checkpoint_every", "100"]
    process = subprocess.Popen(command(tmp_path / "out.ipynb", *more), stderr=subprocess.DEVNULL)
    run = open_run(tmp_path, "one")
    deadline = time.monotonic() + 120
    while len(run.read_metrics("train")) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.terminate()
    process.wait(60)
    while run.read_status().state != "stopped":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    done = run.read_status().iteration
    assert "is gone" in run.read_status().message and 2 <= done < 10
    first = run.read_metrics()
    again = papermill(tmp_path / "out.ipynb", *more)
    assert again.returncode == 0, again.stderr[-2000:]
    assert [record["iteration"] for record in run.read_metrics("train")] == list(range(1, 11))
    assert run.read_metrics()[: len(first)] == first, "what was done was not done again"
    assert run.read_status().state == "complete"


@pytest.mark.parametrize("name", ["household", "keydoor", "frozenlake"])
def test_the_notebook_of_worlds_runs_without_torch(name: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('this notebook needs no torch')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    more = ["-p", "env", name, "-p", "exact_env", "frozenlake" if name == "frozenlake" else "keydoor"]
    start = time.monotonic()
    result = papermill(tmp_path / "out.ipynb", *more, notebook=WORLDS, env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 0, result.stderr[-2000:]
    assert time.monotonic() - start < 40
    outputs = [o for c in nbformat.read(tmp_path / "out.ipynb", 4).cells for o in c.get("outputs", [])]
    kinds = [kind for o in outputs for kind in o.get("data", {})]
    assert kinds.count("application/vnd.jupyter.widget-view+json") == 1, "what is played with"
    assert kinds.count("application/vnd.plotly.v1+json") == 1 and kinds.count("text/html") == 4
    texts = "\n".join(str(o.get("data", {}).get("text/plain", "")) for o in outputs)
    for promised in ("(start)", "A plan of", "Two ways into one state", "steps a second", "Made with"):
        assert promised in texts
    assert (tmp_path / "out.ipynb").stat().st_size < 400_000, "a notebook that can be shared"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("env", "keydor", "env: 'keydor'; expected one of"),
        ("polcy", "random", "unknown parameter 'polcy'; did you mean 'policy'?"),
        ("task", "household/train/9", "task_id: 'household/train/9'; expected"),
    ],
)
def test_bad_parameters_of_the_notebook_of_worlds_are_named(name, value, message, tmp_path: Path) -> None:
    result = papermill(tmp_path / "out.ipynb", "-p", name, value, notebook=WORLDS)
    assert result.returncode != 0 and message in result.stderr
