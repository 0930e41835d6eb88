"""Pictures and tables hold the recorded numbers, and no text of a trajectory comes to life."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from test_store import one_step

import widgets
from gagpo.config import Config, CreditConfig
from gagpo.credit import assign_credit
from gagpo.state_keys import keyed_table
from gagpo.store import Run, open_run
from gagpo.table import Outcome, Step, StepTable
from widgets.plots import mimebundle
from widgets.tables import NO_MATH, Table, Tables

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</td></tr></table></style><b>out</b>",
    "[x](javascript:alert(1)) **bold** $\\frac{1}{2}$",
    "&lt;script&gt;",
    "]]><svg/onload=alert(1)>",
    "'\"><iframe src=//x>",
    "\u202eevil\u0000",
]


class Tags(HTMLParser):
    """Collects tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.classes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs} - {"class"}
        self.classes |= {value for name, value in attrs if name == "class"}

    def handle_data(self, data):
        self.text.append(data)


def parse(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


def make_run(tmp_path: Path, trajectories=None) -> Run:
    run = open_run(tmp_path, "made")
    run.write_config(
        Config.from_flat({"iterations": 3}), {"versions": {"python": "3"}, "commit": None, "platform": "p"}
    )
    for i in (1, 2, 3):
        names = (
            "success_rate episode_length advantage_iqr advantage_above_one singleton_share "
            "zero_sigma_share ratio_max gradient_norm entropy clip_fraction kl_k3 collect_s score_s "
            "credit_s record_s update_s"
        )
        metrics = {name: i + n / 100 for n, name in enumerate(names.split())}
        run.append_metrics("train", i, metrics | {"iteration_s": 2.0})
    run.append_metrics("eval", 3, {"success_rate": 0.75, "episode_length": 4.0, "num_tasks": 8.0})
    if trajectories:
        table = StepTable.from_trajectories(trajectories)
        credit = assign_credit(table, CreditConfig())
        run.write_steps(3, trajectories, table, credit, [np.zeros(1, np.float32)] * table.num_steps)
    return run


def hostile(text: str):
    step = Step(text, "a", (text,), text, (1,), (2,), (-0.5,), 1.0, True)
    return one_step(steps=(step,), goal=text, task_id=text, final_observation=text)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_of_a_trajectory_is_inert(payload: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, [hostile(payload)])
    page = parse(widgets.example_trajectories(run)._repr_html_())
    diagnosis = parse(widgets.diagnosis(wrong_keys(tmp_path / "keys", payload))._repr_html_())
    assert page.tags | diagnosis.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
    assert page.attributes | diagnosis.attributes <= {"style"}
    assert page.classes | diagnosis.classes == {NO_MATH}
    assert any(
        payload.replace("\0", "") in text.replace("\0", "").replace("\ufffd", "") for text in page.text
    )


def test_examples_show_a_success_and_a_failure_of_one_task_with_its_arithmetic(tmp_path: Path) -> None:
    lost = Step("seen", "a", ("go",), "stay", (1,), (2,), (-0.5,), 0.0, True)
    failed = one_step(sibling=1, steps=(lost,), success=False, outcome=Outcome.TRUNCATED)
    alone = one_step(task_id="other")
    run = make_run(tmp_path, [alone, one_step(), failed])
    examples = widgets.example_trajectories(run)
    first, second = examples.tables
    assert "t, sibling 0" in first.caption and "reached the goal" in first.caption
    assert "t, sibling 1" in second.caption and "failed (truncated)" in second.caption
    # Rewards 1 and 0 in one shared state: V = 1/2, both td errors are 1/2 in size, sigma is 1/2.
    assert first.rows == (
        ("0", "seen", "go", "1", "+1.000", "2", "+0.500", "+0.000", "+0.500", "+0.500", "+1.000"),
    )
    assert second.rows[0][-3:] == ("-0.500", "-0.500", "-1.000")
    with pytest.raises(ValueError, match="iteration: 9; recorded are 3 to 3"):
        widgets.example_trajectories(run, iteration=9)


def wrong_keys(tmp_path: Path, text: str) -> Run:
    """One text for the states a and b, and two texts for c; the second sibling fails at once."""
    seen = [(text, "a", 0.0), (text, "b", 0.0), ("plain", "c", 0.0), ("other", "c", 1.0)]
    steps = tuple(Step(o, key, (), "go", (1,), (2, 3), (-0.5, -0.5), r, True) for o, key, r in seen)
    won, lost = (
        one_step(steps=steps),
        one_step(sibling=1, steps=(replace(steps[0], action_ids=(2,), logprobs=(-0.5,)),), success=False),
    )
    run = open_run(tmp_path, "keys")
    run.write_config(Config.from_flat({"state_key": "observation"}), {})
    table = keyed_table([won, lost], run.read_config().credit)
    credit = assign_credit(table, run.read_config().credit)
    old = [np.zeros(n, np.float32) for n in (2, 2, 2, 2, 1)]
    run.write_steps(1, [won, lost], table, credit, old)
    return run


def test_the_diagnosis_of_an_iteration_by_hand(tmp_path: Path) -> None:
    counts, signal, weights, aliasing, splitting = widgets.diagnosis(wrong_keys(tmp_path, "text")).tables
    assert counts.caption == "Iteration 1: 5 steps"
    assert counts.rows == (
        ("steps alone in their anchor group", "2", "40 %"),
        ("steps in an anchor group (quartiles)", "1 / 1 / 2, at most 3", ""),
        ("groups whose advantages do not vary", "0", "0 %"),
        ("steps whose key other states have too (aliasing)", "3", "60 %"),
        ("steps whose state has other keys too (splitting)", "2", "40 %"),
    )
    assert signal.rows[0] == ("siblings differ in outcome", "1", "100 %", "100 %")
    assert [row[1:] for row in signal.rows[1:]] == [("0", "0 %", "0 %")] * 2
    assert weights.rows == (
        ("actions", "20 %", "50 %", "80 %"),
        ("tokens", "11.1 %", "50 %", "88.9 %"),
        ("trajectories", "50 %", "50 %", "50 %"),
    )
    assert aliasing.rows == (("0", "text", "1", "text"),)
    assert splitting.rows == (("2", "plain", "3", "other"),)
    with pytest.raises(ValueError, match="iteration: 9; recorded are 1 to 1"):
        widgets.diagnosis(open_run(tmp_path, "keys"), iteration=9)


def curve(figure, name: str, axis: str = "x") -> list:
    (trace,) = [t for t in figure.data if t.name == name and t.xaxis == axis]
    return list(zip(trace.x, trace.y, strict=True))


def test_figures_hold_the_recorded_numbers(tmp_path: Path) -> None:
    run = make_run(tmp_path, [one_step(), one_step(sibling=1)])
    figure = widgets.learning_curves(run)
    assert curve(figure, "training") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert curve(figure, "unseen") == [(3, 0.75)]
    assert curve(figure, "training", "x2") == [(1, 1.01), (2, 2.01), (3, 3.01)]
    spread = widgets.advantage_spread(run)
    assert curve(spread, "share with |A| > 1") == [(1, 1.03), (2, 2.03), (3, 3.03)]
    assert list(spread.data[-1].x) == [0.0, 0.0], "two equal siblings have no advantage"
    assert curve(widgets.training_health(run), "clip_fraction", "x2") == [(1, 1.09), (2, 2.09), (3, 3.09)]
    assert [bar.name for bar in widgets.phase_times(run).data] == [
        "collect",
        "score",
        "credit",
        "record",
        "update",
    ]
    run.append_metrics("train", 4, {"critic_s": 2.5})
    critic = widgets.phase_times(run).data[-1]
    assert (critic.name, critic.y[-1]) == ("critic", 2.5)


def test_two_runs_in_one_picture_are_told_apart_by_colour_and_dash(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "a"), make_run(tmp_path / "b")
    shown = [t for t in widgets.learning_curves([one, two]).data if t.xaxis == "x"]
    assert len({t.line.color for t in shown}) == len({t.line.dash for t in shown}) == 2
    assert len({(t.line.color, t.opacity) for t in shown}) == 4, "and training from unseen by strength"


def test_a_figure_is_small_plain_data_without_an_upload_button(tmp_path: Path) -> None:
    bundle = mimebundle(widgets.learning_curves(make_run(tmp_path)))
    assert bundle["application/vnd.plotly.v1+json"]["config"]["showSendToCloud"] is False
    assert len(json.dumps(bundle)) < 40_000
    assert bundle["text/plain"] == "Learning curves of made"


def test_an_empty_run_folder_is_shown_as_empty(tmp_path: Path) -> None:
    run = open_run(tmp_path, "new")
    for figure in (
        widgets.learning_curves,
        widgets.advantage_spread,
        widgets.training_health,
        widgets.phase_times,
    ):
        assert all(len(trace.x or ()) == 0 for trace in figure(run).data)
    assert "no recorded steps" in repr(widgets.example_trajectories(run))
    assert "no recorded steps" in repr(widgets.diagnosis(run))
    assert widgets.metrics_table(run).rows == ()


def test_progress_is_told_once_a_line_and_again_after_a_resumption(tmp_path: Path) -> None:
    run, stream = make_run(tmp_path), io.StringIO()
    tell = widgets.ProgressLine(stream=stream)
    tell(run)
    tell(run)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("iteration 1/3  success 100.0%") and "left 0.1 min" in lines[0]
    assert lines[3] == "unseen tasks   75.0% of 8 solved in 4.0 steps (after iteration 3)"
    run.drop_after(1)
    tell(run)
    run.append_metrics("eval", 2, {"success_rate": 1.0, "episode_length": 2.0, "num_tasks": 2.0})
    tell(run)
    assert stream.getvalue().splitlines()[4:] == [
        "unseen tasks  100.0% of 2 solved in 2.0 steps (after iteration 2)"
    ]


def test_missing_numbers_are_told_as_dashes_and_drawn_as_gaps(tmp_path: Path) -> None:
    run, stream = make_run(tmp_path), io.StringIO()
    record = {
        k: v for k, v in run.read_metrics("train")[0].items() if k not in ("stage", "iteration", "time")
    }
    run.append_metrics("train", 4, record | {"entropy": float("nan")})
    run.append_metrics("train", 5, record | {"entropy": 0.0, "ratio_max": 0.0, "num_trained": 0.0})
    widgets.ProgressLine(stream=stream)(run)
    told = stream.getvalue().splitlines()
    assert "entropy    -  " in told[4] and "clip 109.0%" in told[4]
    assert "entropy    -  " in told[5] and "clip     -  " in told[5] and "success 100.0%" in told[5]
    figure = widgets.training_health(run)
    assert curve(figure, "entropy")[3:] == [(4, None), (5, None)]
    assert curve(figure, "ratio_max")[3:] == [(4, 1.06), (5, None)]
    assert dict(widgets.metrics_table(run).rows)["ratio_max"] == ""


def test_text_cannot_steer_the_terminal_that_shows_a_log(tmp_path: Path) -> None:
    run = make_run(tmp_path, [hostile("a\x1b[2J\u202eb\x07")])
    shown = repr(widgets.example_trajectories(run))
    assert "a\ufffd[2J\ufffdb\ufffd" in shown
    assert all(c.isprintable() for line in shown.split("\n") for c in line)


def test_tables_read_well_in_a_log() -> None:
    table = Table("Words", ("a", "long name"), (("x\ny", "z" * 100), ("1", "2")))
    assert repr(Tables((table,))) == f"Words\na    long name\nx y  {'z' * 59}…\n1    2"


def test_versions_and_metrics(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert widgets.versions_table(run).rows == (("python", "3"), ("commit", "None"), ("platform", "p"))
    table = widgets.metrics_table(run, last=2)
    assert table.columns == ("metric", "iteration 2", "iteration 3")
    assert table.rows[0] == ("success_rate", "2", "3")


def test_left_out_games_are_told(tmp_path: Path) -> None:
    run, stream = open_run(tmp_path, "r"), io.StringIO()
    run.append_metrics("warm", 0, {"skipped/no game file": 3.0})
    widgets.ProgressLine(stream=stream)(run)
    assert stream.getvalue() == "left out      3 games: no game file\n"
