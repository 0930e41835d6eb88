"""Journals: nothing that was written is lost, whoever else writes and whenever it all ends."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from reviews import line, make_run, targets, write_lines

from gagpo import annotations
from gagpo.annotations import Journal, read_annotations, reviewers
from gagpo.review import fold
from gagpo.store import Run
from gagpo.targets import Span, Target

WHOLE = Target(1, "pick up", 0)
STEP = Target(1, "pick up", 0, 1)
SPAN = Target(1, "pick up", 0, 1, Span("observation", 0, 4))


@pytest.fixture
def run(tmp_path) -> Run:
    return make_run(tmp_path / "r")


def test_what_is_written_is_read_back(run):
    journal = Journal(run, "ann")
    assert journal.read().records == () and reviewers(run) == []
    written = [
        journal.answer(WHOLE, "outcome", "failed"),
        journal.answer(WHOLE, "cause", ["loop", "format"]),
        journal.answer(WHOLE, "bad_reward", True),
        journal.answer(STEP, "step_quality", -1),
        journal.tag(STEP, add="discuss"),
        journal.tag(STEP, add=["a b", "ü"], remove=["discuss"]),
        comment := journal.comment(SPAN, "wörds\n\u2028\u202e \x00 = 𝄞"),
        journal.edit(comment, "other words"),
        journal.retract(comment),
    ]
    found = Journal(run, "ann").read()
    assert found == read_annotations(run) and found.problems == ()
    assert list(found.records) == written
    assert written[1].value == ("loop", "format") and written[6].text == "wörds\n\u2028\u202e \x00 = 𝄞"
    assert [r.time for r in written] == sorted({r.time for r in written})
    lines = (run.path / "annotations" / "ann.jsonl").read_bytes().split(b"\n")
    assert len(lines) == 10 and lines[-1] == b"" and all(text.isascii() for text in lines)
    assert json.loads(lines[0]) == {
        "id": written[0].id,
        "time": written[0].time,
        "reviewer": "ann",
        "kind": "answer",
        "target": "iteration=1&task=pick%20up&sibling=0",
        "question": "outcome",
        "value": "failed",
    }


def test_what_is_wrong_is_refused_before_the_file_is_touched(run):
    journal, other = Journal(run, "ann"), Journal(run, "bob")
    own, retraction = journal.comment(WHOLE, "x"), None
    retraction = journal.retract(journal.comment(WHOLE, "y"))
    before = journal.path.read_bytes()
    for call, told in [
        (lambda: journal.answer(WHOLE, "outcom", "solved"), "did you mean 'outcome'"),
        (lambda: journal.answer(WHOLE, "outcome", "fine"), "expected one of solved"),
        (lambda: journal.answer(STEP, "outcome", "solved"), "expected a trajectory"),
        (lambda: journal.tag(WHOLE), "both empty"),
        (lambda: journal.tag(WHOLE, add=["a\nb"]), "on one line"),
        (lambda: journal.comment(WHOLE, " "), "1 to 20000 characters"),
        (lambda: journal.comment(WHOLE, "\udc00"), "whole characters"),
        (lambda: other.edit(own, "mine"), "'ann' wrote that"),
        (lambda: other.retract(own), "'ann' wrote that"),
        (lambda: journal.edit(journal.read().records[-1], "x"), "expected comment"),
        (lambda: journal.retract(retraction), "anything but a retraction"),
    ]:
        with pytest.raises(ValueError, match=told):
            call()
    assert journal.path.read_bytes() == before and not other.path.exists()


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".ann", "a..b", "x" * 101, "ann\n", "änn", 3, None])
def test_reviewers_are_named_like_runs(run, name):
    with pytest.raises(ValueError, match=r"reviewer: .*; expected 1 to 100 letters"):
        Journal(run, name)


def test_capitals_do_not_make_another_reviewer(run):
    Journal(run, "ann").comment(WHOLE, "x")
    Journal(run, "ann").comment(WHOLE, "y")
    with pytest.raises(ValueError, match="'Ann'; 'ann' is known"):
        Journal(run, "Ann")


def test_a_journal_needs_a_run_and_stays_in_it(run, tmp_path):
    with pytest.raises(ValueError, match="expected a run folder"):
        Journal(Run(tmp_path / "none"), "ann")
    (tmp_path / "elsewhere").mkdir()
    (run.path / "annotations").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="outside of the run"):
        Journal(run, "ann")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/hostname", path)])
def test_pipes_folders_and_links_are_neither_read_nor_written(run, make):
    write_lines(run, "bob", [line(1, "bob")])
    path = run.path / "annotations" / "ann.jsonl"
    make(path)
    with pytest.raises(ValueError, match="expected a plain file"):
        Journal(run, "ann").comment(WHOLE, "x")
    found = read_annotations(run)
    assert [r.reviewer for r in found.records] == ["bob"] and "expected a plain file" in found.problems[0]


def test_a_torn_last_line_is_left_out_and_never_glued_to(run):
    journal = Journal(run, "ann")
    first = journal.comment(WHOLE, "first")
    whole = journal.path.read_bytes()
    torn = journal.comment(WHOLE, "torn")
    content = journal.path.read_bytes()
    for cut in range(len(whole), len(content)):
        journal.path.write_bytes(content[:cut])
        is_whole = cut == len(content) - 1  # only the end of the line is missing
        kept = [first, torn] if is_whole else [first]
        assert journal.read() == annotations.Annotations(tuple(kept), ())
        new = journal.comment(WHOLE, "new")
        found = journal.read()
        assert list(found.records) == [*kept, new]
        assert len(found.problems) == (not is_whole and cut > len(whole))
        assert journal.path.read_bytes().startswith(content[:cut])


def test_a_clock_that_was_set_back_does_not_undo_an_answer(run, monkeypatch):
    journal = Journal(run, "ann")
    monkeypatch.setattr(annotations, "_now", lambda: "2026-12-03T14:00:00.999999Z")
    journal.answer(WHOLE, "outcome", "failed")
    monkeypatch.setattr(annotations, "_now", lambda: "2026-12-03T13:00:00.000000Z")
    later = journal.answer(WHOLE, "outcome", "solved")
    assert later.time == "2026-12-03T14:00:01.000000Z"
    assert fold(journal.read().records).answers[WHOLE, "outcome"] == {"ann": later}
    with journal.path.open("a") as file:
        file.write('{"torn')
    assert journal.answer(WHOLE, "outcome", "partly").time == "2026-12-03T14:00:01.000001Z"


@pytest.mark.parametrize("last", ['{"time": "9000-01-01T00:00:00.000000Z"}', '{"time": 3}', "[]", "{}", "x"])
def test_a_last_line_that_is_damaged_sets_no_time(run, monkeypatch, last):
    journal = Journal(run, "ann")
    journal.path.parent.mkdir()
    journal.path.write_text(last + "\n")
    monkeypatch.setattr(annotations, "_now", lambda: "2026-12-03T14:00:00.999999Z")
    assert journal.comment(WHOLE, "x").time == "2026-12-03T14:00:00.999999Z"
    assert len(journal.read().records) == 1


def test_a_full_disk_leaves_no_torn_line(run, monkeypatch):
    journal = Journal(run, "ann")
    journal.comment(WHOLE, "x")
    before, write = journal.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda number, content: write(number, content[:20]))
    with pytest.raises(OSError, match=r"20 of .* bytes were written"):
        journal.comment(WHOLE, "y")
    assert journal.path.read_bytes() == before


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_writer_waits_for_another_and_writes_to_the_file_that_is_there_then(run, is_replaced):
    journal = Journal(run, "ann")
    first = journal.comment(WHOLE, "first")
    with journal.path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer = threading.Thread(target=journal.comment, args=(WHOLE, "second"))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive() and journal.read().records == (first,)
        if is_replaced:  # as git does at a checkout
            aside = run.path / "aside"
            aside.write_bytes(journal.path.read_bytes())
            os.replace(aside, journal.path)
        fcntl.flock(held, fcntl.LOCK_UN)
        writer.join(10)
    assert [record.text for record in journal.read().records] == ["first", "second"]


def append_many(path: Path, reviewer: str, writer: int, num_lines: int) -> None:
    journal = Journal(Run(path), reviewer)
    for number in range(num_lines):
        journal.comment(WHOLE, f"{writer}:{number}:" + "é" * (number % 50))


def started(target, *arguments) -> multiprocessing.Process:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def test_eight_processes_lose_nothing(run):
    """Six write to one reviewer's file, two to another's; 200 lines each."""
    names = ["ann"] * 6 + ["bob"] * 2
    processes = [started(append_many, run.path, name, i, 200) for i, name in enumerate(names)]
    while any(process.is_alive() for process in processes):
        assert read_annotations(run).problems == ()  # a reader sees whole lines all along
        time.sleep(0.2)
    assert [process.exitcode for process in processes] == [0] * 8
    found = read_annotations(run)
    texts = [record.text for record in found.records]
    wanted = {f"{i}:{n}:" + "é" * (n % 50) for i in range(8) for n in range(200)}
    assert found.problems == () and len(texts) == 1600 and set(texts) == wanted
    for writer in range(8):  # by time, every writer's lines are in the order of writing
        own = [int(text.split(":")[1]) for text in texts if text.startswith(f"{writer}:")]
        assert own == list(range(200))


def append_for_ever(path: Path) -> None:
    journal = Journal(Run(path), "ann")
    number = 0
    while True:
        journal.comment(WHOLE, f"{number}:" + "x" * 15_000)
        print(number, flush=True)  # what was acknowledged
        number += 1


def test_kill_9_loses_nothing_that_was_acknowledged(run):
    program = "import sys; from test_annotations import append_for_ever as f; from pathlib import Path\n"
    command = [sys.executable, "-c", program + "f(Path(sys.argv[1]))", str(run.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    expected = 0
    for delay_s in (0.02, 0.05, 0.11):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert process.stdout is not None
        acknowledged = [process.stdout.readline()]
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.read().split("\n")[:-1]
        assert process.wait() == -signal.SIGKILL
        expected += len(acknowledged)
        found = read_annotations(run)
        assert expected <= len(found.records) <= expected + 1
        expected = len(found.records)
    assert Journal(run, "ann").comment(WHOLE, "after") in read_annotations(run).records


def git(folder: Path, *arguments: str) -> None:
    own = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def test_git_merges_what_was_written_on_two_branches(run, tmp_path):
    """With `*.jsonl merge=union` both branches' lines are kept, and the fold is that of all of them."""
    folder = run.path
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("*.jsonl merge=union\n")
    ann, bob = Journal(run, "ann"), Journal(run, "bob")
    start = ann.comment(WHOLE, "start")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "start")
    git(folder, "checkout", "-qb", "desk")
    written = [start, ann.answer(WHOLE, "outcome", "failed"), ann.edit(start, "at the desk")]
    git(folder, "commit", "-qam", "desk")
    git(folder, "checkout", "-q", "main")
    written += [bob.answer(WHOLE, "outcome", "solved"), ann.answer(WHOLE, "outcome", "partly")]
    written.append(ann.answer(STEP, "step_quality", 1))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "train")
    git(folder, "merge", "-q", "--no-edit", "desk")
    found = read_annotations(run)
    assert found.problems == () and {r.id for r in found.records} == {r.id for r in written}
    state = fold(found.records)
    assert state == fold(written)
    assert {who: r.value for who, r in state.answers[WHOLE, "outcome"].items()} == {
        "ann": "partly",
        "bob": "solved",
    }
    assert state.comments[0].text == "at the desk"
    assert len(targets()) == 4 and ann.comment(WHOLE, "after") in read_annotations(run).records
