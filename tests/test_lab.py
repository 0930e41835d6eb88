"""The credit laboratory's tables and figures hold the numbers that credit, truth and benchmark have."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from test_store import one_step
from test_widgets import PAYLOADS, parse, wrong_keys

from gagpo.config import Config, CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.fidelity import correlation
from gagpo.fidelity_cell import Cell, prepare, run_cell
from gagpo.state_keys import keyed_table
from gagpo.table import Outcome, Step
from widgets.fidelity import (
    FILES,
    MEASURES,
    fidelity_figure,
    fidelity_table,
    measure,
    read_lines,
    show_recorded,
    sweeps_figure,
    swept_cells,
)
from widgets.lab import compare_keys, side_by_side
from widgets.lab_settings import LabSettings
from widgets.plots import mimebundle
from widgets.recorded import Recorded, gather_recorded, of_run, played
from widgets.tables import Table
from widgets.what_if import agreement_grids, gamma_curves, lambda_curves

ROOT = Path(__file__).resolve().parents[1]
CELL = Cell(num_siblings=4, num_tasks=3, num_batches=4, horizon=12, min_plan_steps=4, success=0.6)


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return played(CELL)


def of(*trajectories, states_are_true: bool = False) -> Recorded:
    return Recorded(tuple(trajectories), "made by hand", states_are_true)


def lost(**changes):
    step = Step("seen", "a", ("go",), "stay", (1,), (2,), (-0.5,), 0.0, True)
    return one_step(
        **{"sibling": 1, "steps": (step,), "success": False, "outcome": Outcome.TRUNCATED} | changes
    )


def test_two_siblings_in_one_state_by_hand():
    """Rewards 1 and 0 in a shared state: V = 1/2 and every deviation is 1/2, so all normalised advantages
    are 1 in size; GiGPO adds two of them, RLOO's is R less the other's, and of HGPO's levels, which weigh
    1/6, 2/6 and 3/6, a first step has the first alone."""
    about, first, second, left_out = side_by_side(of(lost(), one_step()), CreditConfig()).tables
    assert about.rows == (("made by hand", "t", "g", "2"),)
    assert (first.caption, second.caption) == (
        "sibling 0: it reached the goal after 1 steps",
        "sibling 1: it failed (truncated) after 1 steps",
    )
    names = ("gagpo", "gigpo", "grpo", "rloo", "reinforce", "hgpo")
    assert first.columns[:11] == ("t", "state", "visits", "action", "r", *names)
    assert first.rows[0][:11] == (
        *("0", "state 0", "2", "go", "1"),
        *("+1.00", "+2.00", "+1.00", "+1.00", "+1.00", "+0.17"),
    )
    assert second.rows[0][3:11] == ("stay", "0", *("-1.00", "-2.00", "-1.00", "-1.00", "-1.00", "-0.17"))
    assert first.shades[0][:11] == (*[None] * 5, *[pytest.approx(1.0)] * 6)
    assert second.shades[0][5:11] == tuple([pytest.approx(-1.0)] * 6)
    assert [row[0] for row in left_out.rows] == ["gae"] and "critic_value" in left_out.rows[0][1]


def test_every_number_is_that_of_the_estimator_and_of_the_truth(recorded):
    config = CreditConfig(normalize="none", lam=0.5)
    true = recorded.truth(config.gamma)
    table = replace(
        keyed_table(recorded.trajectories, config),
        critic_value=true.value,
        critic_final=np.zeros(len(recorded.trajectories)),
    )
    task = recorded.trajectories[-1].task_id
    shown = side_by_side(recorded, config, task, num_shown=9).tables[1:]
    places = [i for i, t in enumerate(recorded.trajectories) if t.task_id == task]
    assert len(shown) == len(places) == 4
    by_sibling = {int(made.caption.split()[1][:-1]): made for made in shown}
    for name in ESTIMATORS:
        expected = assign_credit(table, replace(config, estimator=name)).normalized
        rows = [r for i in places for r in range(table.offsets[i], table.offsets[i + 1])]
        largest = np.abs(expected[rows]).max()
        for i in places:
            own = by_sibling[recorded.trajectories[i].sibling]
            column = own.columns.index("gae, true V" if name == "gae" else name)
            numbers = expected[table.offsets[i] : table.offsets[i + 1]]
            assert [row[column] for row in own.rows] == [f"{x:+.2f}" for x in numbers]
            assert [row[column] for row in own.shades] == pytest.approx(numbers / (largest or 1))
    for i in places:
        own = by_sibling[recorded.trajectories[i].sibling]
        numbers = true.advantage[table.offsets[i] : table.offsets[i + 1]]
        assert [row[-1] for row in own.rows] == [f"{x:+.2f}" for x in numbers] and own.columns[-1] == "true A"
        steps = recorded.trajectories[i].steps
        assert [row[1] for row in own.rows] == [step.state_key for step in steps]


def test_with_the_true_values_and_lambda_0_gae_is_the_truth_without_chance(recorded):
    config = CreditConfig(normalize="none", lam=0.0, truncation="bootstrap")
    for made in side_by_side(recorded, config).tables[1:]:
        column = made.columns.index("gae, true V")
        assert [float(row[column]) for row in made.rows] == [float(row[-1]) for row in made.rows]


def test_what_is_played_follows_from_the_cell(recorded):
    again = played(CELL)
    assert again.trajectories == recorded.trajectories
    assert sorted({t.task_id for t in again.trajectories}) == sorted(prepare(CELL)[0].tasks)
    assert max(len(t.steps) for t in again.trajectories) <= CELL.horizon
    assert played(replace(CELL, seed=1)).trajectories != recorded.trajectories


def test_the_task_is_one_whose_siblings_differ_or_the_one_asked_for():
    same, other = one_step(task_id="same"), one_step(task_id="other")
    mixed = [one_step(task_id="mixed"), lost(task_id="mixed")]
    some = of(same, *mixed, other)
    assert side_by_side(some, CreditConfig()).tables[0].rows[0][1] == "mixed"
    assert side_by_side(some, CreditConfig(), "other").tables[0].rows[0][1] == "other"
    with pytest.raises(
        ValueError, match=r"unknown task 'othr'; did you mean 'other'\?; expected one of the 3"
    ):
        side_by_side(some, CreditConfig(), "othr")


def test_a_single_trajectory_has_credit_and_pictures():
    alone = of(one_step())
    (_, made, _) = side_by_side(alone, CreditConfig()).tables
    assert made.rows[0][5] == "+0.00" and made.shades[0][5] == 0.0, "compared with nobody"
    assert [len(t.y) for t in lambda_curves(alone, CreditConfig()).data] == [1] * 7
    assert len(gamma_curves(alone, CreditConfig()).data) == 5
    assert compare_keys(alone, CreditConfig(), ["exact"]).rows == (("exact", "1", "1 (100 %)", "", "", ""),)


def test_state_keys_by_hand(tmp_path: Path):
    """One text for the states a and b, two texts for c, of five steps; see `wrong_keys`."""
    wrong_keys(tmp_path, "text")
    some = of_run(tmp_path, "keys")
    exact, observation = compare_keys(some, CreditConfig(), ["exact", "observation"]).rows
    assert exact == ("exact", "3", "1 (20 %)", "0 (0 %)", "0 (0 %)", "")
    assert observation == ("observation", "3", "2 (40 %)", "3 (60 %)", "2 (40 %)", "")


def test_state_keys_are_held_against_the_truth(recorded):
    config = CreditConfig(estimator="gigpo")
    for key, *_, agrees in compare_keys(recorded, config, ["exact", "history"]).rows:
        own = replace(config, state_key=key)
        credit = assign_credit(keyed_table(recorded.trajectories, own), own)
        assert agrees == f"{correlation(credit.normalized, recorded.truth(0.95).advantage):.2f}"


def test_lambda_0_and_1_run_through_what_they_are_called(recorded):
    figure = lambda_curves(recorded, CreditConfig())
    for axis in ("x", "x2"):
        drawn = {trace.name: list(trace.y) for trace in figure.data if trace.xaxis == axis}
        assert len(drawn) == 7
        assert drawn["λ 0 = td error"] == pytest.approx(drawn["td error"], abs=1e-12)
        assert drawn["λ 1 = R − V(s)"] == pytest.approx(drawn["R − V(s)"], abs=1e-12)
        assert drawn["λ 0.8"] != pytest.approx(drawn["td error"], abs=1e-3)
    config = CreditConfig(lam=0.8)
    table = keyed_table(recorded.trajectories, config)
    task = next(t.task_id for t in recorded.trajectories if mixed(recorded, t))
    won = next(i for i, t in enumerate(recorded.trajectories) if t.task_id == task and t.success)
    expected = assign_credit(table, config).advantage[table.offsets[won] : table.offsets[won + 1]]
    (curve,) = [t for t in figure.data if t.name == "λ 0.8" and t.xaxis == "x"]
    assert list(curve.y) == expected.tolist()
    (curve,) = [t for t in gamma_curves(recorded, config).data if t.name == "γ 0.95" and t.xaxis == "x"]
    assert list(curve.y) == expected.tolist()


def mixed(recorded: Recorded, trajectory) -> bool:
    return len({t.success for t in recorded.trajectories if t.task_id == trajectory.task_id}) == 2


def test_grids_and_measures_are_those_of_the_same_cell():
    config = CreditConfig(own_return="left_out", truncation="bootstrap")
    result = measure(CELL, config)
    assert list(result.rows) == list(ESTIMATORS)
    expected = run_cell(CELL, {"gagpo": {"own_return": "left_out", "truncation": "bootstrap", "lam": 0.8}})
    assert result.rows["gagpo"] == expected.rows["gagpo"]
    grids = agreement_grids(CELL, config, lambdas=(0.0, 0.8), gammas=(0.95, 1.0)).tables
    for grid, name in zip(grids, ("correlation", "cosine", "cosine_return"), strict=True):
        assert grid.columns == ("", "λ 0", "λ 0.8") and [row[0] for row in grid.rows] == ["γ 0.95", "γ 1"]
        assert grid.rows[0][2] == f"{getattr(result.rows['gagpo'], name).mean:.3f}"
        assert grid.shades[0][2] == getattr(result.rows["gagpo"], name).mean
    assert grids[1].rows[1] == grids[2].rows[1], "at gamma 1 both gradients are one"
    table, figure = fidelity_table(result), fidelity_figure(result)
    row = table.rows[list(ESTIMATORS).index("grpo")]
    found = result.rows["grpo"]
    mean, low, high = found.cosine
    assert row[table.columns.index("gradient cosine")] == f"{mean:.3f} ({low:.3f} to {high:.3f})"
    assert row[table.columns.index("bias")].startswith(f"{found.errors.bias.mean:.2f} (")
    (panel,) = [trace for trace in figure.data if trace.name == "spread"]
    place = list(panel.y).index("grpo")
    spread = found.errors.spread
    assert panel.x[place] == spread.mean
    assert panel.x[place] - panel.error_x.arrayminus[place] == pytest.approx(spread.low)
    assert panel.x[place] + panel.error_x.array[place] == pytest.approx(spread.high)


def write_benchmark(folder: Path, cells: list[dict], name: str = "gagpo") -> None:
    measures = [m + end for m in MEASURES for end in ("", "_low", "_high")]
    for file, rows in ((FILES[1], [{"cell": i} | asdict(Cell()) | c for i, c in enumerate(cells)]),
                       (FILES[0], [{"cell": i, "estimator": name} | dict.fromkeys(measures, 0.1 * i)
                                   for i in range(len(cells))])):  # fmt: skip
        with (folder / file).open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)


def test_recorded_sweeps_are_drawn_in_the_order_of_what_varies(tmp_path: Path):
    write_benchmark(tmp_path, [{}, {"gamma": 0.99}, {"gamma": 0.9}, {"success": 0.1}, {"num_batches": 9}])
    cells, lines = read_lines(tmp_path / FILES[1]), read_lines(tmp_path / FILES[0])
    assert [cell["cell"] for cell in swept_cells(cells, "gamma")] == ["2", "0", "4", "1"]
    figure = sweeps_figure(cells, lines)
    (curve,) = [t for t in figure.data if t.name == "gagpo" and t.xaxis == "x2"]
    assert list(curve.x) == ["0.9", "0.95", "0.95", "0.99"]
    assert list(curve.y) == pytest.approx([0.2, 0.0, 0.4, 0.1])
    shown = show_recorded(tmp_path)
    assert shown.caption.startswith("From docs/results/credit_fidelity.csv") and "5 settings" in shown.caption
    assert shown.rows == (("gagpo", *["0.000 (0.000 to 0.000)"] * 4, *["0.00 (0.00 to 0.00)"] * 2),)


def test_without_recorded_sweeps_the_table_says_so_and_damaged_ones_are_named(tmp_path: Path):
    assert "No recorded benchmark" in show_recorded(tmp_path).caption
    write_benchmark(tmp_path, [{}])
    lines = (tmp_path / FILES[0]).read_text().replace("cosine_low", "cosine_lo")
    (tmp_path / FILES[0]).write_text(lines)
    with pytest.raises(ValueError, match=r"credit_fidelity\.csv: lacks cosine_low"):
        show_recorded(tmp_path)
    (tmp_path / FILES[0]).write_text("")
    with pytest.raises(ValueError, match=r"lacks cell, estimator"):
        show_recorded(tmp_path)


def test_the_recorded_benchmark_of_this_checkout_is_whole():
    folder = ROOT / "docs" / "results"
    cells, lines = read_lines(folder / FILES[1]), read_lines(folder / FILES[0])
    points = [len(t.x) for t in sweeps_figure(cells, lines).data]
    assert points == [6] * 6 + [4] * 6 + [6] * 6
    shown = show_recorded(folder)
    (usual,) = [c for c in swept_cells(cells, "gamma") if c["gamma"] == "0.95"]
    (line,) = [r for r in lines if r["cell"] == usual["cell"] and r["estimator"] == "gagpo"]
    row = next(row for row in shown.rows if row[0] == "gagpo")
    assert row[4] == f"{line['cosine']} ({line['cosine_low']} to {line['cosine_high']})"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_of_trajectories_is_inert(payload: str, tmp_path: Path):
    """Also in the one figure that is made of trajectories."""
    step = Step(payload, payload, (payload,), payload, (1,), (2,), (-0.5,), 1.0, True)
    made = [one_step(steps=(step,), goal=payload, task_id=payload, sibling=i) for i in range(2)]
    some = Recorded(tuple(made), payload, states_are_true=True)
    shown = side_by_side(some, CreditConfig())
    page = parse(shown._repr_html_() + compare_keys(some, CreditConfig(), ["exact"])._repr_html_())
    assert page.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
    assert page.attributes <= {"style"}
    assert "".join(c for c in payload if c.isprintable()) in "".join(page.text).replace("\ufffd", "")
    assert payload not in json.dumps(mimebundle(lambda_curves(some, CreditConfig())))


def test_colours_are_as_strong_as_numbers_and_only_where_they_belong():
    made = Table(
        "c", ("a", "b"), (("x", "+1"), ("y", "-1"), ("z", "0")), ((None, 1.0), (None, -0.5), (None, 0.0))
    )
    cells = made._repr_html_().split("<td ")[1:]
    assert [("rgba(0,114,178,0.55)" in c, "rgba(213,94,0,0.28)" in c) for c in cells] == [
        *((False, False), (True, False), (False, False), (False, True), (False, False), (False, False))
    ]
    assert "rgba" not in Table("c", ("a",), (("x",),))._repr_html_()
    for odd in (float("nan"), None):
        assert "rgba" not in Table("c", ("a",), (("x",),), ((odd,),))._repr_html_()
    assert "rgba(0,114,178,0.55)" in Table("c", ("a",), (("x",),), ((7.0,),))._repr_html_()


def test_a_run_that_is_not_there_is_named_and_not_made(tmp_path: Path):
    wrong_keys(tmp_path, "text")
    (tmp_path / "empty").mkdir()
    for run_id, message in (
        ("key", r"run_id: unknown run 'key'; did you mean 'keys'\?"),
        ("../keys", "run_id: unknown run"),
        ("empty", "run_id: 'empty' has no recorded steps yet"),
    ):
        with pytest.raises(ValueError, match=message):
            of_run(tmp_path, run_id)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "keys"]
    with pytest.raises(ValueError, match="run_id: unknown run 'x'"):
        of_run(tmp_path / "nowhere", "x")
    with pytest.raises(ValueError, match="iteration: 9; recorded are 1 to 1"):
        of_run(tmp_path, "keys", 9)


def test_settings_of_the_laboratory_are_checked_and_choose_the_source(tmp_path: Path):
    for name, value, message in (
        ("success", 1.5, "success: 1.5; expected at most 1"),
        ("success", "often", "success: 'often' is str; expected float"),
        ("num_batches", 1, "num_batches: 1; expected at least 2"),
        ("compared_keys", 3, "compared_keys: 3 is int; expected a list of names"),
    ):
        with pytest.raises(ValueError, match=message):
            LabSettings.of({name: value, "other": 1})
    wrong_keys(tmp_path, "text")
    lab = LabSettings(runs_dir=str(tmp_path), num_batches=2)
    config = Config.from_flat({"env": "keydoor", "num_tasks": 2, "num_siblings": 2, "max_steps": 5})
    assert gather_recorded(config, lab, "keys").told == "iteration 1 of run keys"
    assert "played here by a policy that succeeds in 50%" in gather_recorded(config, lab).told
    assert gather_recorded(config, replace(lab, success=None)).told.startswith(
        "keydoor, played here by a uniform"
    )
