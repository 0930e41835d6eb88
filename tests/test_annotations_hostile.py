"""Annotation files that are damaged or hostile: what can be read is read, and the rest is told."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reviews import line, make_run, write_lines

from gagpo import annotations
from gagpo.annotations import Journal, read_annotations
from gagpo.review import fold
from gagpo.store import Run
from gagpo.targets import Target

WHOLE = Target(1, "pick up", 0)


@pytest.fixture
def run(tmp_path) -> Run:
    return make_run(tmp_path / "r")


def test_damaged_lines_hide_nothing_else(run):
    good = [line(i) for i in range(4)]
    path = write_lines(run, "ann", [])
    content = [
        "\ufeff" + json.dumps(good[0]) + "\r",
        "<<<<<<< HEAD",
        "",
        json.dumps(good[1]),
        "[" * 100_000,
        json.dumps(line(9) | {"reviewer": "bob"}),
        json.dumps(line(9, kind="vote", future=1)),
        json.dumps(good[2] | {"future": {"deep": [1, None]}}),
        '{"id": "' + "x" * (annotations.MAX_LINE + 10) + '"}',
        json.dumps(line(9) | {"time": "2026-02-30T00:00:00.000000Z"}),
        json.dumps(line(9) | {"target": "iteration=1"}),
        json.dumps(line(9) | {"value": 1.5}),
        json.dumps(good[3]),
    ]
    path.write_text("\n".join(content) + "\n")
    found = read_annotations(run)
    assert [record.id for record in found.records] == [record["id"] for record in good]
    assert found.records[2].extra == {"future": {"deep": [1, None]}}
    told = [
        "line 2: expected JSON",
        "line 5: expected JSON: nested",
        'line 6: reviewer: "bob"',
        "line 7: kind",
    ]
    told += [
        "line 9: longer than",
        "line 10: time",
        "line 11: target: task is missing",
        "line 12: value: 1.5",
    ]
    assert len(found.problems) == len(told)
    for problem, expected in zip(found.problems, told, strict=True):
        assert problem.startswith(f"{path}: {expected}")
    kept = path.read_bytes()
    Journal(run, "ann").comment(WHOLE, "x")
    assert path.read_bytes().startswith(kept)  # lines of the future stay what they are


def test_many_damaged_lines_are_counted(run):
    path = write_lines(run, "ann", [line(1)])
    with path.open("a") as file:
        file.write("x\n" * 50)
    found = read_annotations(run)
    assert len(found.records) == 1 and len(found.problems) == 21
    assert found.problems[-1].endswith("30 more lines could not be read")


def test_files_that_are_too_long_are_refused_and_not_read(run):
    path = write_lines(run, "ann", [line(1)])
    write_lines(run, "bob", [line(2, "bob")])
    os.truncate(path, annotations.MAX_FILE + 1)
    found = read_annotations(run)
    assert [r.reviewer for r in found.records] == ["bob"]
    assert found.problems == (f"{path}: longer than {annotations.MAX_FILE} bytes",)
    with pytest.raises(ValueError, match="bytes of annotations"):
        Journal(run, "ann").comment(WHOLE, "x")


def test_a_file_whose_name_is_no_reviewers_is_told(run):
    write_lines(run, "a\nb", [])
    assert read_annotations(run).problems == ('"a\\nb.jsonl": not read; its name is not a reviewer\'s',)


def test_an_id_that_stands_for_two_records_counts_once_whatever_the_order(run):
    same, other = line(1), line(1, value="failed")
    for records in ([same, same, other], [other, same], [same, other, same]):
        write_lines(run, "ann", records)
        found = read_annotations(run)
        assert [r.value for r in found.records] == ["failed"]  # of one time, the first by its text
        assert "stands in lines that differ" in found.problems[0]
    write_lines(run, "ann", [same, same])
    assert len(read_annotations(run).records) == 1 and read_annotations(run).problems == ()


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.text(max_size=3))
)
FIELDS = ["id", "time", "reviewer", "kind", "target", "question", "value", "text", "of", "add", "remove"]


@st.composite
def spoilt_lines(draw) -> bytes:
    kind = draw(st.sampled_from(["answer", "tags", "comment", "edit", "retract"]))
    record = line(draw(st.integers(0, 5)), kind=kind, text="x", of="id00000001", add=["t"], remove=[])
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        record[name] = draw(ODD)
    text = json.dumps(record).encode() + b"\n"
    start = draw(st.integers(0, len(text)))
    return draw(st.sampled_from([text, text, text[:start] + draw(st.binary(max_size=4)) + text[start:]]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(spoilt_lines() | st.binary(max_size=30), max_size=8))
def test_any_bytes_are_read_or_told_and_can_be_written_after(run, parts):
    journal = Journal(run, "ann")
    journal.path.parent.mkdir(exist_ok=True)
    journal.path.write_bytes(b"".join(parts))
    before = journal.read()
    fold(before.records)
    new = journal.comment(WHOLE, "new")
    after = journal.read()
    assert set(r.id for r in after.records) == {r.id for r in before.records} | {new.id}
    assert journal.path.read_bytes().startswith(b"".join(parts))
