"""Annotations as tables and on the command line, from a recorded run to what a spreadsheet opens."""

from __future__ import annotations

import csv
import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reviews import line, make_run, write_lines

from gagpo.__main__ import main
from gagpo.annotations import Journal, read_annotations
from gagpo.annotations_export import GUARDED, SCHEMA, annotation_table, guarded, write_annotations
from gagpo.review import fold
from gagpo.store import Run
from gagpo.targets import RecordedTargets, Span, Target

FORMULA = '=HYPERLINK("http://x","y")'
A, B = Target(1, "pick up", 0), Target(1, "=1+1", 1)


@pytest.fixture
def run(tmp_path) -> Run:
    """Two reviewers; one of ann's answers was given again, one comment edited and one retracted."""
    run = make_run(tmp_path / "r")
    write_lines(
        run,
        "ann",
        [
            line(1),
            line(2, value="failed"),
            line(3, question="cause", value=["loop", "format"]),
            line(4, question="decisive", value=1),
            line(5, question="bad_reward", value=True),
            line(6, kind="comment", text=FORMULA, target="iteration=1&task=%3D1%2B1&sibling=1&step=2"),
            line(7, kind="comment", text="gone"),
            line(8, kind="retract", of="id00000007"),
            line(9, kind="edit", of="id00000006", text=FORMULA + "\r\n\té"),
            line(10, kind="tags", add=["+tag", "-tag"]),
        ],
    )
    span = str(Target(1, "pick up", 1, 1, Span("observation", 5, 9)))
    write_lines(run, "bob", [line(1, "bob"), line(2, "bob", kind="comment", text="'so", target=span)])
    return run


def table_of(run: Run):
    return annotation_table(fold(read_annotations(run).records), RecordedTargets(run))


def time(number: int) -> datetime:
    return datetime(2026, 12, 3, 14, 0, 0, number, timezone.utc)


def test_a_row_for_each_answer_comment_and_tag_with_its_trajectory(run):
    table, problems = table_of(run)
    assert problems == [] and table.schema == SCHEMA
    rows = table.to_pylist()
    columns = ("task", "sibling", "step", "reviewer", "id", "kind", "question", "value", "number")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("=1+1", 1, 2, "ann", "id00000006", "comment", None, FORMULA + "\r\n\té", None),
        ("pick up", 0, None, "bob", "id00000001", "answer", "outcome", "solved", None),
        ("pick up", 0, None, "ann", "id00000002", "answer", "outcome", "failed", None),
        ("pick up", 0, None, "ann", "id00000003", "answer", "cause", '["loop", "format"]', None),
        ("pick up", 0, None, "ann", "id00000004", "answer", "decisive", "1", 1),
        ("pick up", 0, None, "ann", "id00000005", "answer", "bad_reward", "true", 1),
        ("pick up", 0, None, "ann", "id00000010", "tag", None, "+tag", None),
        ("pick up", 0, None, "ann", "id00000010", "tag", None, "-tag", None),
        ("pick up", 1, 1, "bob", "id00000002", "comment", None, "'so", None),
    ]
    assert rows[0] | {} == rows[0] | {
        "run": "r", "iteration": 1, "link": "iteration=1&task=%3D1%2B1&sibling=1&step=2", "quote": None,
        "time": time(6), "edited": time(9), "goal": "Put it away.", "outcome": "truncated",
        "success": False, "return": -1.0, "length": 3, "span_text": None,
    }  # fmt: skip
    last = {name: rows[-1][name] for name in ("span_text", "span_start", "span_end", "quote", "edited")}
    assert last == {
        "span_text": "observation", "span_start": 5, "span_end": 9, "quote": "1 é𝄞", "edited": None,
    }  # fmt: skip
    assert (rows[1]["success"], rows[1]["return"], rows[1]["outcome"]) == (True, 1.0, "terminated")


def test_parquet_is_exact(run, tmp_path):
    table, _ = table_of(run)
    write_annotations(table, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(table)


def test_csv_holds_the_same_and_no_formula(run, tmp_path):
    table, _ = table_of(run)
    write_annotations(table, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header == SCHEMA.names and len(rows) == table.num_rows
    for cells, row in zip(rows, table.to_pylist(), strict=True):
        for name, cell in zip(header, cells, strict=True):
            value = row[name]
            if isinstance(value, str):
                assert cell[:1] not in GUARDED or cell[0] == "'"
                assert cell.removeprefix("'") == value if cell[:1] == "'" else cell == value
            elif isinstance(value, datetime):
                assert cell == value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            else:
                assert cell == ("" if value is None else json.dumps(value))
    first = dict(zip(header, rows[0], strict=True))
    assert first["task"] == "'=1+1" and first["value"] == "'" + FORMULA + "\r\n\té"
    assert (first["return"], first["success"]) == ("-1.0", "false")  # a number keeps its sign


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "'"])
def test_what_a_spreadsheet_would_run_is_guarded(start):
    assert guarded(f"{start}1") == f"'{start}1" and guarded(f"a{start}1") == f"a{start}1"
    assert guarded("") == "" and guarded("words") == "words"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=9))
@example("so\r=1+1")
@example('"=1+1"\n,=1')
def test_any_comment_survives_both_formats(run, tmp_path, text):
    if not text.strip():
        return
    write_lines(run, "ann", [line(1, kind="comment", text=text)])
    (run.path / "annotations" / "bob.jsonl").unlink(missing_ok=True)
    table, _ = table_of(run)
    for name in ("out.csv", "out.parquet"):
        write_annotations(table, tmp_path / name)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["value"][:1] not in GUARDED - {"'"}
    assert (row["value"][1:] if row["value"][:1] == "'" else row["value"]) == text
    assert pq.read_table(tmp_path / "out.parquet")["value"].to_pylist() == [text]


def test_what_the_run_does_not_have_is_exported_and_told(run):
    gone = ["iteration=7&task=a&sibling=0", "iteration=1&task=pick%20up&sibling=0&step=9"]
    write_lines(run, "cy", [line(i, "cy", kind="comment", text="x", target=t) for i, t in enumerate(gone)])
    table, problems = table_of(run)
    rows = [row for row in table.to_pylist() if row["reviewer"] == "cy"]
    assert [(row["link"], row["goal"], row["length"]) for row in rows] == [
        (gone[1], "Put it away.", 2),
        (gone[0], None, None),
    ]
    assert problems == [
        f"cy: {gone[0]}: iteration: 7; run 'r' has no steps of it",
        f"cy: {gone[1]}: step: 9; that trajectory has 2, counted from 0",
    ]


def test_no_annotations_make_an_empty_table(tmp_path):
    table, problems = table_of(make_run(tmp_path / "r"))
    assert (table.num_rows, table.schema, problems) == (0, SCHEMA, [])
    write_annotations(table, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == ",".join(SCHEMA.names) + "\n"


def test_the_command_tells_progress_agreement_and_problems(run, tmp_path, capsys):
    write_lines(run, "cy", [line(1, "cy", value="fine"), {"id": 3}])
    out = tmp_path / "out.parquet"
    assert main(["annotations", str(run.path), "--agreement", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        'run r, label set "agent trajectories", iterations: 1',
        "reviewer              answers  comments  tags  reviewed",
        "ann                         4         1     2  1 of 4 trajectories",
        "bob                         1         1     0  1 of 4 trajectories",
        "cy                          1         0     0  0 of 4 trajectories",
        "",
        "agreement, with 95 % intervals",
        "outcome: 1 answered by two or more of 2",
        "  equal pairs  0.000 (no interval: one unit has no interval)",
        "  alpha        0.000 (no interval: one unit has no interval)",
        "  kappa        0.000 (no interval: one unit has no interval)  ann, bob",
        "nothing answered by two: cause, decisive, bad_reward",
        "",
        "disagreements: 1",
        '  outcome  iteration=1&task=pick%20up&sibling=0  ann "failed", bob "solved"',
        "",
        "problems",
        f"{run.path}/annotations/cy.jsonl: line 2: id: 3; expected a text",
        f"cy: {A}: answer to 'outcome': \"fine\"; expected one of solved, partly, failed, unclear",
        "",
        f"written: {out}, 10 rows",
    ]
    assert pq.read_table(out).num_rows == 10


def test_the_command_takes_an_iteration_and_a_label_set(run, tmp_path, capsys):
    assert main(["annotations", str(run.path), "--iteration", "2"]) == 0
    assert "iterations: none" in capsys.readouterr().out
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({"name": "a\nb", "questions": [{"id": "q", "kind": "text", "ask": "?"}]}))
    assert main(["annotations", str(run.path), "--labels", str(labels)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith('run r, label set "a\\nb"') and "unknown question 'outcome'" in printed
    assert "ann                         4         1     2  2 of 4 trajectories" in printed


def test_what_the_command_cannot_do_is_told(run, tmp_path, capsys):
    for arguments, told in [
        ([str(tmp_path / "none")], "none: missing; expected a run folder"),
        ([str(run.path), "--out", "x.xlsx"], "out: 'x.xlsx'; expected a name that ends in .csv or .parquet"),
        ([str(run.path), "--out", str(tmp_path / "none" / "x.csv")], "No such file"),
        ([str(run.path), "--labels", str(run.path)], "expected a plain file"),
    ]:
        assert main(["annotations", *arguments]) == 1
        assert told in capsys.readouterr().err


def test_the_benchmarks_chats_reviewed_and_exported(shared_dir, tmp_path, capsys):
    """tau-bench's file from import to Parquet: two reviewers, of whom the second misjudges every fifth."""
    source = shared_dir / "data" / "trajectories" / "tau_airline_gpt4o.json"
    if not source.exists():
        pytest.skip(f"no recorded chats at {source}")
    assert main(["import", str(source), "--out", str(tmp_path / "tau"), "--max-steps", "30"]) == 0
    run = Run(tmp_path / "tau")
    known = RecordedTargets(run).trajectories(1)
    ann, bob = Journal(run, "ann"), Journal(run, "bob")
    chosen = list(known.values())[:40]
    wrong = 0
    for i, facts in enumerate(chosen):
        truth = "solved" if facts.success else "failed"
        ann.answer(facts.target, "outcome", truth)
        flipped = {"solved": "failed", "failed": "solved"}[truth] if i % 5 == 0 else truth
        wrong += flipped != truth
        bob.answer(facts.target, "outcome", flipped)
    capsys.readouterr()
    out = tmp_path / "out.parquet"
    assert main(["annotations", str(run.path), "--agreement", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "40 of 200 trajectories" in printed and f"disagreements: {wrong}" in printed
    assert f"  equal pairs  {1 - wrong / 40:.3f} [" in printed and wrong == 8
    rows = pq.read_table(out).to_pylist()
    assert len(rows) == 80 and {row["length"] for row in rows} == {f.length for f in chosen}
    own = [row for row in rows if row["reviewer"] == "ann"]
    assert all((row["value"] == "solved") == row["success"] == (row["return"] == 1) for row in own)
    moved = tmp_path / "moved"  # a run folder can be copied, annotations and all
    shutil.copytree(run.path, moved)
    assert read_annotations(Run(moved)).records == read_annotations(run).records
    assert isinstance(Path(out), Path)
