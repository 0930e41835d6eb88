"""The run folder: what is written is read back, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo.config import Config, CreditConfig
from gagpo.credit import assign_credit
from gagpo.steps_file import SCHEMA, read_credit, read_steps, read_trajectories, step_table, write_steps
from gagpo.store import Run, RunLocked, open_run
from gagpo.table import Outcome, Step, StepTable, Trajectory

NUMBERS = st.floats(-100, 100, width=32)
TEXT = st.text(max_size=12)


@st.composite
def steps(draw) -> Step:
    ids = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4))
    valid = draw(st.booleans())
    return Step(
        observation=draw(TEXT),
        state_key=draw(st.sampled_from("abc")),
        admissible=tuple(draw(st.lists(TEXT, max_size=3))),
        action=draw(TEXT),
        prompt_ids=tuple(draw(st.lists(st.integers(0, 9), max_size=3))),
        action_ids=tuple(ids),
        logprobs=tuple(draw(st.lists(NUMBERS, min_size=len(ids), max_size=len(ids)))),
        reward=draw(NUMBERS),
        valid=valid,
        cut_off=not valid and draw(st.booleans()),
    )


@st.composite
def groups(draw) -> list[Trajectory]:
    return [
        Trajectory(
            task_id=f"task {group}",
            sibling=sibling,
            seed=draw(st.integers(0, 2**62)),
            steps=tuple(draw(st.lists(steps(), min_size=1, max_size=4))),
            outcome=draw(st.sampled_from(Outcome)),
            success=draw(st.booleans()),
            goal=draw(TEXT),
            final_observation=draw(TEXT),
            final_state_key=draw(st.sampled_from("abcd")),
            policy_version=draw(st.integers(0, 99)),
        )
        for group in range(draw(st.integers(1, 3)))
        for sibling in range(draw(st.integers(1, 3)))
    ]


def write(path: Path, trajectories: list[Trajectory]):
    table = StepTable.from_trajectories(trajectories)
    credit = assign_credit(table, CreditConfig())
    old = [
        np.array([0.25 * i for i in range(len(step.action_ids))], np.float32)
        for t in trajectories
        for step in t.steps
    ]
    write_steps(path, trajectories, table, credit, old)
    return table, credit, old


@settings(max_examples=60, deadline=None)
@given(groups())
def test_steps_come_back_as_they_were(tmp_path_factory, trajectories: list[Trajectory]) -> None:
    path = tmp_path_factory.mktemp("steps") / "000001.parquet"
    table, credit, old = write(path, trajectories)
    rows = read_steps(path)
    assert read_trajectories(rows) == trajectories
    bare = {"admissible": (), "prompt_ids": (), "action_ids": (), "logprobs": ()}
    assert read_trajectories(rows, lists=False) == [
        replace(t, steps=tuple(replace(step, **bare) for step in t.steps)) for t in trajectories
    ]
    length = len(trajectories[0].steps)
    parts = [rows.slice(0, length), rows.slice(length)]
    assert read_trajectories(pa.concat_tables(parts)) == trajectories, "columns in several pieces"
    assert len(trajectories) == 1 or read_trajectories(parts[1]) == trajectories[1:]
    some = read_steps(path, ["step", "reward"])
    assert some.column_names == ["step", "reward"] and some["reward"].equals(rows["reward"])
    again = step_table(rows)
    for name in StepTable.__slots__:
        assert np.array_equal(getattr(again, name), getattr(table, name)), name
    for name in type(credit).__slots__:
        assert np.array_equal(getattr(read_credit(rows), name), getattr(credit, name)), name
    assert rows["old_logprobs"].to_pylist() == [list(values) for values in old]
    assert [p.name for p in path.parent.iterdir()] == [path.name], "nothing is left aside"


def one_step(**changes) -> Trajectory:
    step = Step("seen", "a", ("go",), "go", (1,), (2,), (-0.5,), 1.0, True)
    fields = dict(task_id="t", sibling=0, seed=0, steps=(step,), outcome=Outcome.TERMINATED, success=True)
    return Trajectory(**(fields | dict(goal="g", final_observation="end", final_state_key="b") | changes))


def test_the_prompt_after_a_cut_is_not_kept(tmp_path: Path) -> None:
    trajectory = one_step(outcome=Outcome.TRUNCATED, final_prompt_ids=(1, 2))
    write(tmp_path / "000001.parquet", [trajectory])
    (again,) = read_trajectories(read_steps(tmp_path / "000001.parquet"))
    assert again.final_prompt_ids == () and again == replace(trajectory, final_prompt_ids=())


def test_foreign_and_damaged_step_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "000001.parquet"
    write(path, [one_step()])
    rows = read_steps(path)
    bad = tmp_path / "bad.parquet"
    pq.write_table(rows.drop_columns(["reward"]), bad)
    with pytest.raises(ValueError, match="column 'reward' is missing"):
        read_steps(bad)
    pq.write_table(rows.set_column(rows.column_names.index("reward"), "reward", [["1.0"]]), bad)
    with pytest.raises(ValueError, match="column 'reward' is string; expected double"):
        read_steps(bad)
    pq.write_table(rows.replace_schema_metadata({}), bad)
    with pytest.raises(ValueError, match="gagpo_steps_version is none; expected 1"):
        read_steps(bad)
    for name, values in (("action", pa.nulls(1, pa.string())), ("admissible", [["go", None]])):
        field = rows.schema.field(name)
        column = pa.array(values, pa.string() if name == "action" else field.type).cast(field.type)
        pq.write_table(rows.set_column(rows.column_names.index(name), field, column), bad)
        with pytest.raises(ValueError, match=f"column '{name}' has missing values"):
            read_steps(bad)
    field = rows.schema.field("outcome")
    column = pa.array(["won"]).cast(field.type)
    pq.write_table(rows.set_column(rows.column_names.index("outcome"), field, column), bad)
    with pytest.raises(ValueError, match="outcome is 'won'; expected one of terminated, truncated, error"):
        read_steps(bad)
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_steps(tmp_path)
    bad.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_steps(bad)
    with pytest.raises(ValueError, match="not whole trajectories"):
        step_table(rows.slice(0, 0))


def test_a_changed_byte_of_a_column_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "000001.parquet"
    write(path, [one_step()])
    column = pq.ParquetFile(path).metadata.row_group(0).column(SCHEMA.get_field_index("reward"))
    assert column.path_in_schema == "reward"
    whole = bytearray(path.read_bytes())
    # The last byte of a column chunk belongs to the values of its last page.
    whole[column.dictionary_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_steps(path)


def test_mismatched_records_are_not_written(tmp_path: Path) -> None:
    table = StepTable.from_trajectories([one_step()])
    credit = assign_credit(table, CreditConfig())
    with pytest.raises(ValueError, match="2 in the trajectories, 1 in the table"):
        write_steps(tmp_path / "x", [one_step(), one_step(sibling=1)], table, credit, [np.zeros(1)])
    assert list(tmp_path.iterdir()) == []


BAD_IDS = [
    "",
    ".",
    "..",
    "a/b",
    "/etc",
    "a\\b",
    "a\0b",
    ".hidden",
    "a..b",
    "ä",
    "a b",
    "-x",
    "x" * 101,
    7,
    None,
]


@pytest.mark.parametrize("run_id", BAD_IDS)
def test_a_run_id_cannot_leave_the_folder(run_id, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run_id"):
        open_run(tmp_path / "runs", run_id)
    assert list(tmp_path.iterdir()) == []


def test_a_symbolic_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="outside of"):
        open_run(tmp_path / "runs", "x")


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("kept")
    with pytest.raises(ValueError, match=r"run_id: 'README\.md' is a file"):
        open_run(tmp_path, "README.md")


@given(st.text())
def test_whatever_the_id_the_run_lies_right_under_the_folder(run_id: str) -> None:
    root = Path(__file__).parent / "never-made"
    try:
        path = open_run(root, run_id).path
    except ValueError:
        return
    finally:
        if root.exists():
            for child in root.iterdir():
                child.rmdir()
            root.rmdir()
    assert path.parent == root.resolve() and path.name == run_id


def test_settings_and_status_round_trip(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r1")
    assert run.read_status() is None and not run.has_config() and run.read_metrics() == []
    config = Config.from_flat({"gamma": 0.5, "task_types": ["a"], "games": "x"})
    run.write_request(config)
    run.write_config(config, {"versions": {"python": "3"}})
    assert run.read_request() == config == run.read_config()
    assert run.read_facts() == {"schema_version": 1, "versions": {"python": "3"}}
    run.write_status("running", 3, 9, "hm")
    status = run.read_status()
    assert (status.state, status.iteration, status.iterations, status.message) == ("running", 3, 9, "hm")


def test_resuming_names_every_setting_that_differs(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.write_config(Config(), {})
    run.check_same(Config.from_flat({"iterations": 999, "eval_every": 3, "num_threads": 2}))
    with pytest.raises(ValueError, match=r"gamma was 0\.95 and is now 0\.5, seed was 0 and is now 4"):
        run.check_same(Config.from_flat({"seed": 4, "gamma": 0.5}))


def test_a_run_cannot_be_made_shorter_than_it_is(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.write_config(Config.from_flat({"iterations": 50}), {})
    for iteration in (1, 2, 3):
        run.append_metrics("train", iteration, {})
    run.check_same(Config.from_flat({"iterations": 3}))
    with pytest.raises(ValueError, match="iterations: 2; run 'r' has 3 behind it"):
        run.check_same(Config.from_flat({"iterations": 2}))


def test_an_unfinished_run_whose_process_is_gone_reads_as_interrupted(tmp_path: Path) -> None:
    code = "import sys; from gagpo.store import Run; Run(sys.argv[1]).write_status(sys.argv[2], 1, 2)"
    for state, seen in (("running", "interrupted"), ("warming", "interrupted"), ("complete", "complete")):
        subprocess.run([sys.executable, "-c", code, str(tmp_path), state], check=True)
        assert Run(tmp_path).read_status().state == seen


def test_metrics_survive_a_torn_tail_and_hold_no_nan(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.append_metrics("train", 1, {"a": 1.5, "b": float("nan"), "c": float("-inf")})
    run.append_metrics("eval", 1, {"a": 2.0})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "train", "iterat')
    (train,) = run.read_metrics("train")
    assert (train["a"], train["b"], train["c"], train["iteration"]) == (1.5, None, None, 1)
    assert len(run.read_metrics()) == 2


@pytest.mark.parametrize("line", ["{", "[1]", "\0\0", '{"iteration": 1}'])
def test_a_broken_line_in_the_midst_of_the_metrics_is_named(line: str, tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.append_metrics("train", 1, {})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    run.append_metrics("train", 2, {})
    with pytest.raises(ValueError, match=r"metrics\.jsonl: line 2 is not a JSON object with a stage"):
        run.read_metrics("train")


@pytest.mark.parametrize("change", [{"pid": "1; rm"}, {"extra": 1}])
def test_a_foreign_status_is_refused(change: dict, tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    run.write_status("running", 1, 2)
    value = json.loads((run.path / "status.json").read_text()) | change
    (run.path / "status.json").write_text(json.dumps(value))
    with pytest.raises(ValueError, match=r"status\.json: expected state, iteration"):
        run.read_status()


def test_dropping_what_a_resumed_run_will_make_anew(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    for iteration in range(4):
        run.append_metrics("train", iteration, {"a": float(iteration)})
        trajectory = one_step()
        table = StepTable.from_trajectories([trajectory])
        credit = assign_credit(table, CreditConfig())
        run.write_steps(iteration, [trajectory], table, credit, [np.zeros(1, np.float32)])
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write("torn")
    run.drop_after(1)
    assert [record["a"] for record in run.read_metrics()] == [0, 1]
    assert run.iterations_with_steps() == [0, 1]
    run.append_metrics("train", 2, {"a": 7.0})
    assert [record["a"] for record in run.read_metrics()] == [0, 1, 7]


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(tmp_path, "r")
    run.write_status("running", 1, 2)

    def refuse(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        run.write_status("running", 2, 2)
    assert run.read_status().iteration == 1


HOLD = """
import sys, time
from gagpo.store import Run
with Run(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_writer_a_run_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(run.path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunLocked, match=rf"'r' is being written by process {holder.pid} on"), run.lock():
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with run.lock():
        pass


def test_the_stop_file(tmp_path: Path) -> None:
    run = open_run(tmp_path, "r")
    assert not run.stop_requested()
    run.request_stop()
    run.request_stop()
    assert run.stop_requested()
    run.clear_stop()
    run.clear_stop()
    assert not run.stop_requested()


def test_no_environment_variable_reaches_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gagpo.facts import facts

    monkeypatch.setenv("SECRET_TOKEN", "canary-7f3a")
    run = open_run(tmp_path, "r")
    run.write_config(Config(), facts())
    assert "canary-7f3a" not in (run.path / "config.json").read_text()


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not valid JSON"), ("[1]", "expected a JSON object"), (None, "missing")]
)
def test_a_broken_run_folder_says_which_file(text, message, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=rf"config\.json: .*{message}"):
        Run(tmp_path).read_config()
