"""Label sets: what a file may hold, what an answer may be, and hostile files."""

from __future__ import annotations

import copy
import json
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reviews import make_run

from gagpo.labels import DEFAULT_LABELS, MAX_BYTES, LabelSet, parse_labels, read_labels
from gagpo.targets import Span, Target

GOOD = {
    "name": "ours",
    "questions": [
        {"id": "outcome", "kind": "choice", "ask": "What?", "key": "o", "required": True,
         "options": ["good", {"id": "bad", "ask": "not good", "key": "b"}]},
        {"id": "cause", "kind": "choices", "ask": "Why?", "options": ["x", "y", "z"]},
        {"id": "care", "kind": "scale", "ask": "How?", "low": -1, "high": 3, "on": "step"},
        {"id": "odd", "kind": "flag", "ask": "Odd?", "on": "span"},
        {"id": "words", "kind": "text", "ask": "Say it."},
        {"id": "decisive", "kind": "step", "ask": "Where?"},
    ],
    "tags": ["two words"],
}  # fmt: skip
WHOLE, STEP = Target(1, "a", 0), Target(1, "a", 0, 1)
SPAN = Target(1, "a", 0, 1, Span("action", 0, 1))


def parsed(record: object) -> LabelSet:
    return parse_labels(json.dumps(record).encode(), "labels.json")


def test_a_set_is_read_as_it_is_written():
    labels = parsed(GOOD)
    assert list(labels.questions) == ["outcome", "cause", "care", "odd", "words", "decisive"]
    assert labels.required == ["outcome"] and labels.tags == ("two words",)
    good, bad = labels.question("outcome").options
    assert (good.id, good.ask, good.key) == ("good", "good", "") and (bad.ask, bad.key) == ("not good", "b")
    assert (labels.question("care").low, labels.question("care").high) == (-1, 3)


def test_the_built_in_set_asks_for_the_outcome():
    assert DEFAULT_LABELS.required == ["outcome"]
    kinds = {name: question.kind for name, question in DEFAULT_LABELS.questions.items()}
    assert (kinds["outcome"], kinds["cause"], kinds["decisive"]) == ("choice", "choices", "step")
    keys = [question.key for question in DEFAULT_LABELS.questions.values()]
    assert all(keys) and len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("question", "target", "value", "recorded"),
    [
        ("outcome", WHOLE, "bad", "bad"),
        ("cause", WHOLE, ["z", "x", "z"], ("x", "z")),
        ("cause", WHOLE, [], ()),
        ("care", STEP, -1, -1),
        ("odd", SPAN, False, False),
        ("words", WHOLE, "so = so\n", "so = so\n"),
        ("decisive", WHOLE, 0, 0),
    ],
)
def test_answers_that_fit(question, target, value, recorded):
    found = parsed(GOOD).question(question).check(value, target)
    assert found == recorded and type(found) is type(recorded)


@pytest.mark.parametrize(
    ("question", "target", "value", "told"),
    [
        ("outcome", WHOLE, "Bad", "expected one of good, bad"),
        ("outcome", STEP, "bad", "it is about a step; expected a trajectory"),
        ("outcome", WHOLE, ["bad"], "expected one of"),
        ("cause", WHOLE, "x", "expected a list of some of x, y, z"),
        ("cause", WHOLE, ["x", "w"], "expected a list of some of"),
        ("care", STEP, 4, "from -1 to 3"),
        ("care", STEP, True, "from -1 to 3"),
        ("care", STEP, 1.0, "from -1 to 3"),
        ("odd", SPAN, 1, "true or false"),
        ("words", WHOLE, " \n", "1 to 20000 characters"),
        ("words", WHOLE, "x" * 20_001, "20001 characters"),
        ("words", WHOLE, "\ud800", "whole characters"),
        ("decisive", WHOLE, -1, "a whole number from 0"),
    ],
)
def test_answers_that_do_not_fit_are_told(question, target, value, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        parsed(GOOD).question(question).check(value, target)


def test_an_unknown_question_is_told_with_the_nearest():
    with pytest.raises(ValueError, match="unknown question 'outcom'; did you mean 'outcome'"):
        parsed(GOOD).question("outcom")


def spoilt(path: tuple, value: object) -> dict:
    record = copy.deepcopy(GOOD)
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return record


Q0 = ("questions", 0)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("name",), None, "labels.json: name: missing"),
        (("questions",), [], "questions: empty"),
        (("questions",), {}, "questions: {}; expected a list"),
        (("questions",), [GOOD["questions"][4]] * 101, "questions: 101; expected 100 at most"),
        (("questions",), [GOOD["questions"][4]] * 2, "questions[1]: id 'words' stands twice"),
        (("tag",), ["x"], "unknown field 'tag'; did you mean 'tags'?"),
        (("tags",), ["x", "x"], "tags: one stands twice"),
        (("tags",), [" x"], "tags[0]"),
        (("tags",), ["a\nb"], "on one line"),
        (("tags",), ["x" * 101], "1 to 100 printable"),
        ((*Q0, "kind"), "choise", "questions[0]: kind: unknown kind 'choise'; did you mean 'choice'?"),
        ((*Q0, "kind"), 3, "questions[0]: kind: 3; expected a text"),
        ((*Q0, "ask"), None, "questions[0]: ask: missing"),
        ((*Q0, "ask"), "", "questions[0]: ask"),
        ((*Q0, "requird"), True, "unknown field 'requird'; did you mean 'required'?"),
        ((*Q0, "required"), 1, "required: 1; expected true or false"),
        ((*Q0, "on"), "steps", 'on: "steps"; expected one of trajectory, step, span'),
        ((*Q0, "on"), "step", "required: true; expected no true for a question on a step"),
        ((*Q0, "id"), "a b", 'id: "a b"'),
        ((*Q0, "key"), "oo", 'key: "oo"; expected one printable ASCII character'),
        ((*Q0, "key"), " ", "key"),
        ((*Q0, "low"), 1, "unknown field 'low'"),
        ((*Q0, "options"), ["one"], "options: expected at least two"),
        ((*Q0, "options"), ["one", "one"], "options: expected at least two, with different ids"),
        ((*Q0, "options", 1, "kee"), "b", "options[1]: unknown field 'kee'; did you mean 'key'?"),
        ((*Q0, "options", 0), {"id": "good", "key": "b"}, "questions[0]: options: key: one stands twice"),
        ((*Q0, "options", 0), 5, "options[0]: 5; expected an option"),
        (("questions", 1, "key"), "o", "questions: key: one stands twice"),
        (("questions", 2, "high"), -1, "questions[2]: high: -1; expected a whole number from 0"),
        (("questions", 2, "low"), 0.5, "questions[2]: low: 0.5"),
        (("questions", 5, "on"), "step", "a question for a step is about a trajectory"),
    ],
)
def test_what_is_wrong_with_a_set_is_told(path, value, told):
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        parsed(spoilt(path, value))
    assert str(error.value).startswith("labels.json: ")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "expected JSON"),
        (b"[]", "expected a label set"),
        (b"\xff", "expected UTF-8"),
        (b'{"name": "a", "name": "b", "questions": []}', "stands twice"),
        (b'{"name":' + b"[" * 100_000, "nested too deeply"),
        (b'{"name": "a", "questions": [' + b"9" * 5000 + b"]}", "too long"),
        (b'{"name": "a", "questions": NaN}', "questions: NaN; expected a list"),
    ],
)
def test_hostile_bytes_are_refused(content, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_labels(content)


@settings(max_examples=200, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["choice", "scale", "step", "trajectory"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*GOOD["questions"][0], "low", "high", "on", "x"]), inner, max_size=6),
    max_leaves=12,
), st.sampled_from([("name",), ("questions",), ("tags",), Q0, (*Q0, "options"), (*Q0, "options", 0),
                    (*Q0, "id"), (*Q0, "kind"), ("questions", 2, "low"), ("questions", 2)]))  # fmt: skip
def test_anything_in_any_place_is_a_set_or_refused(value, path):
    try:
        labels = parsed(spoilt(path, value))
    except ValueError as error:
        assert str(error).startswith("labels.json: ")
    else:
        assert labels.questions


def test_where_a_run_keeps_its_set(tmp_path):
    run = make_run(tmp_path / "r")
    assert read_labels(run) is DEFAULT_LABELS
    (run.path / "labels.json").write_text(json.dumps(GOOD))
    assert read_labels(run) == parsed(GOOD)
    other = tmp_path / "other.json"
    with pytest.raises(ValueError, match=r"other.json: No such file"):
        read_labels(run, other)
    other.write_text(" " * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match=f"longer than {MAX_BYTES} bytes"):
        read_labels(run, other)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_pipes_folders_and_links_are_no_label_sets(tmp_path, make):
    run = make_run(tmp_path / "r")
    make(run.path / "labels.json")
    with pytest.raises(ValueError, match=r"labels.json: .*expected a plain file"):
        read_labels(run)
