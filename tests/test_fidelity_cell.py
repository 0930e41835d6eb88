"""A cell of the fidelity benchmark by plain loops, its command line, and the numbers that are told of it."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gagpo.board import truth_of
from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.fidelity_cell import VARIANTS, Cell, prepare, run_cell
from gagpo.table import StepTable
from gagpo.walks import draw_walks

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
TINY = Cell(num_tasks=2, num_batches=3, num_siblings=4, horizon=12)  # the first of --quick


def by_loops(cell: Cell, config: CreditConfig) -> dict[str, float]:
    """Correlation, cosine and share of singletons, batch by batch, episode by episode."""
    board, chance = prepare(cell)
    task = np.array([t for _ in range(cell.num_batches) for t in range(2) for _ in range(4)])
    walks = draw_walks(board, chance, task, cell.horizon, np.random.default_rng([cell.seed, 1]))
    truth = truth_of(board, chance, cell.gamma, cell.horizon)
    found: dict[str, list[float]] = {"correlation": [], "cosine": []}
    alone = 0
    for batch in range(cell.num_batches):
        episodes = range(8 * batch, 8 * batch + 8)
        rows = [r for e in episodes for r in range(walks.offsets[e], walks.offsets[e + 1])]
        table = StepTable(
            offsets=np.cumsum([0, *(walks.offsets[e + 1] - walks.offsets[e] for e in episodes)]),
            group=task[list(episodes)],
            truncated=walks.truncated[list(episodes)],
            success=walks.success[list(episodes)],
            reward=walks.reward[rows],
            state=walks.state[rows],
            final_state=walks.final[list(episodes)],
            valid=np.ones(len(rows), bool),
        )
        credit = assign_credit(table, config)
        alone += (credit.anchor_size == 1).sum()
        true = [truth.advantage[cell.horizon - walks.time[r], walks.pair[r]] for r in rows]
        gradient = np.zeros(board.num_pairs)
        for x, r in zip(credit.normalized, rows, strict=True):
            for pair in range(board.num_pairs):
                if board.pair_state[pair] == walks.state[r]:
                    gradient[pair] += x * ((pair == walks.pair[r]) - chance[pair])
        lengths = np.linalg.norm(gradient) * np.linalg.norm(truth.gradient)
        found["correlation"].append(np.corrcoef(credit.normalized, true)[0, 1])
        found["cosine"].append(gradient @ truth.gradient / lengths)
    return {name: float(np.mean(v)) for name, v in found.items()} | {"alone": alone / walks.offsets[-1]}


@pytest.fixture(scope="module")
def result():
    return run_cell(TINY)


@pytest.mark.parametrize("name", ["gagpo", "grpo", "gigpo none", "gagpo lam 0"])
def test_a_cell_is_what_loops_make_of_it(result, name):
    expected = by_loops(TINY, CreditConfig(gamma=0.95, **VARIANTS[name]))
    row = result.rows[name]
    assert row.correlation.mean == pytest.approx(expected["correlation"], abs=1e-12)
    assert row.cosine.mean == pytest.approx(expected["cosine"], abs=1e-12)
    assert result.singleton_share == pytest.approx(expected["alone"])
    assert row.cosine.low <= row.cosine.mean <= row.cosine.high


def test_differences_are_of_the_same_batches(result):
    found = result.difference("gagpo", "grpo", "cosine")
    by_batch = result.by_batch["gagpo"]["cosine"] - result.by_batch["grpo"]["cosine"]
    assert found.mean == pytest.approx(result.rows["gagpo"].cosine.mean - result.rows["grpo"].cosine.mean)
    assert by_batch.min() <= found.low <= found.mean <= found.high <= by_batch.max()


def test_exact_values_with_lam_0_are_the_truth_in_a_world_without_chance():
    """The upper reference is one: correlation, signs and top steps of 1, no bias and no spread."""
    exact = {"estimator": "gae", "lam": 0.0, "normalize": "none"}
    for cell, perfect in ((TINY, True), (Cell(num_tasks=2, num_batches=4, slip=0.3), False)):
        row = run_cell(cell, {"exact": exact}).rows["exact"]
        assert (row.correlation.mean > 1 - 1e-9) == (row.sign_agreement.mean == 1) == perfect
        assert (row.top_precision.mean == 1) == (row.errors.spread.mean < 1e-6) == perfect
        if perfect:
            assert row.errors.bias.mean < 1e-6 and row.errors.scale == pytest.approx(1)


def test_without_shared_states_gagpo_is_silent_and_gigpo_is_grpo():
    result = run_cell(Cell(num_tasks=2, num_batches=3, horizon=12, unique_share=1.0))
    assert result.singleton_share == 1 and result.rows["gagpo"].silent_share == 1
    assert result.rows["gagpo"].cosine.mean == 0
    for measure, values in result.by_batch["gigpo"].items():
        np.testing.assert_allclose(values, result.by_batch["grpo"][measure])


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="num_batches: 1; expected at least 2"):
        Cell(num_batches=1)
    with pytest.raises(ValueError, match=r"slip: 1\.5; expected between 0 and 1"):
        Cell(slip=1.5)
    with pytest.raises(ValueError, match=r"min_plan_steps, max_plan_steps: 0 of \d+ tasks"):
        prepare(Cell(min_plan_steps=90, num_tasks=2))


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_command_line_writes_tables_and_goes_on_where_it_was(tmp_path, result):
    command = [sys.executable, str(ROOT / "benchmarks" / "credit_fidelity.py"), "--quick"]
    command += ["--cells", str(tmp_path / "cells.jsonl"), "--out", str(tmp_path)]
    page = tmp_path / "credit_fidelity.md"
    page.write_text("What it says.\n\n## Tables\n\nold\n", "utf-8")

    def run() -> dict[str, bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".jsonl"}

    first = run()
    rows = lines(tmp_path / "credit_fidelity.csv")
    assert len(rows) == 2 * len(VARIANTS)
    (row,) = (r for r in rows if r["cell"] == "0" and r["estimator"] == "gagpo")
    for name in ("correlation", "cosine", "top_precision"):
        found = getattr(result.rows["gagpo"], name)
        assert [row[name + end] for end in ("", "_low", "_high")] == [f"{x:.3f}" for x in found]
    differences = lines(tmp_path / "credit_fidelity_differences.csv")
    (row,) = (r for r in differences if (r["cell"], r["one"], r["other"]) == ("0", "gagpo", "grpo"))
    assert row["cosine"] == f"{result.difference('gagpo', 'grpo', 'cosine').mean:.3f}"
    (cell, _) = lines(tmp_path / "credit_fidelity_cells.csv")
    assert cell["num_siblings"] == "4" and cell["singleton_share"] == f"{result.singleton_share:.3f}"
    text = page.read_text("utf-8")
    assert text.startswith("What it says.\n\n## Tables\n") and "\nold\n" not in text
    assert f"| {result.rows['gagpo'].cosine.mean:.3f} ±" in text

    whole = (tmp_path / "cells.jsonl").read_text("utf-8").splitlines(keepends=True)
    kept = whole[0].replace('"steps": ', '"steps": 1')  # so that one sees it was kept
    (tmp_path / "cells.jsonl").write_text(kept + whole[1][:100], "utf-8")
    second = run()
    again = (tmp_path / "cells.jsonl").read_text("utf-8").splitlines(keepends=True)
    assert again[0] == kept and again[1] == whole[1][:100] + "\n" and len(again) == 3
    changed = [name for name in first if first[name] != second[name]]
    assert changed == ["credit_fidelity_cells.csv"]


# What the rows of the README's table are: how they differ from the usual cell.
SETTINGS = {
    "eight siblings, γ 0.95, at most 30 steps": {},
    "a policy of 10 %": {"success": 0.1},
    "a policy of 90 %": {"success": 0.9},
    "2 siblings": {"num_siblings": 2},
    "64 siblings": {"num_siblings": 64},
    "γ 1": {"gamma": 1.0},
    "γ 1, a policy of 90 %": {"gamma": 1.0, "success": 0.9},
    "at most 120 steps": {"horizon": 120},
    "noise of 3 on each reward (success pays 10)": {"reward_noise": 3.0},
    "three commands in ten slip": {"slip": 0.3},
    "states told apart by their last two steps, a policy of 10 %": {"key": "history", "success": 0.1},
    "states told apart by the step number, a policy of 10 %": {"key": "timed", "success": 0.1},
    "a quarter of the states unique": {"unique_share": 0.25},
    "half of the states unique": {"unique_share": 0.5},
    "three quarters of the states unique": {"unique_share": 0.75},
    "all states unique": {"unique_share": 1.0},
    "slippery FrozenLake, at most 100 steps, a policy near 30 %": {
        **{"env": "frozenlake", "horizon": 100, "success": 0.3, "min_plan_steps": 0}
    },
}
COLUMNS = ("grpo", "gigpo", "reinforce", "gagpo", "gated_bepo", "gae exact")
USUAL = {
    **{f: getattr(Cell(), f) for f in Cell.__dataclass_fields__ if f != "num_batches"},
    "min_plan_steps": 6,
}


def cell_numbers(**settings) -> list[str]:
    """The numbers of the cells with these settings, others being the usual ones."""
    wanted = {name: "" if value is None else str(value) for name, value in {**USUAL, **settings}.items()}
    cells = lines(RESULTS / "credit_fidelity_cells.csv")
    return [c["cell"] for c in cells if all(c[name] == value for name, value in wanted.items())]


def readme_row(label: str) -> str:
    (number,) = cell_numbers(**SETTINGS[label])
    rows = {r["estimator"]: r for r in lines(RESULTS / "credit_fidelity.csv") if r["cell"] == number}
    shown = []
    for name in COLUMNS:
        mean, low, high = (float(rows[name]["cosine" + end]) for end in ("", "_low", "_high"))
        shown.append(f"{mean:.2f} ± {max(high - mean, mean - low):.2f}")
    return f"| {label} | {' | '.join(shown)} |"


def test_the_readmes_table_is_that_of_the_results():
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.split("\n## Credit beside the truth\n")[1].split("\n## ")[0]
    found = [line for line in section.splitlines() if re.match(r"\| .* ± ", line)]
    assert found == [readme_row(label) for label in SETTINGS]


def ahead(one: str, other: str, cells: set[str]) -> int:
    """In how many of these cells the interval of the cosines' difference lies above 0."""
    rows = lines(RESULTS / "credit_fidelity_differences.csv")
    return sum(
        float(r["cosine_low"]) > 0
        for r in rows
        if (r["one"], r["other"]) == (one, other) and r["cell"] in cells
    )


@pytest.mark.parametrize("page", ["README.md", "docs/results/credit_fidelity.md"])
def test_the_counts_in_the_prose_are_those_of_the_results(page):
    text = " ".join((ROOT / page).read_text("utf-8").split())
    cells = lines(RESULTS / "credit_fidelity_cells.csv")
    shared = {c["cell"] for c in cells if float(c["singleton_share"]) < 0.3}
    total, gigpo = re.search(r"Of the (\d+) \w+ in which fewer than 30 % .*? GiGPO in (\d+)", text).groups()
    (grpo,) = re.findall(r"GRPO in (\d+)", text)
    assert int(total) == len(shared) and int(gigpo) == ahead("gagpo", "gigpo", shared)
    assert int(grpo) == ahead("gagpo", "grpo", shared)
    estimators = lines(RESULTS / "credit_fidelity.csv")
    cosine = {(r["cell"], r["estimator"]): float(r["cosine"]) for r in estimators}
    every = {c["cell"] for c in cells}
    told = re.search(r"beats? GiGPO in (\d+) of the (\d+)", text) or re.search(
        r"ahead of GiGPO in (\d+) of the (\d+)", text
    )
    assert told.groups() == (
        str(sum(cosine[c, "reinforce"] > cosine[c, "gigpo"] for c in every)),
        str(len(every)),
    )
    (bepo,) = re.findall(r"Gated-BEPO (?:beats|is ahead of) GAGPO in (\d+)", text)
    assert int(bepo) == sum(cosine[c, "gated_bepo"] > cosine[c, "gagpo"] for c in every)
