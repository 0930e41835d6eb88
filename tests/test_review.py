"""The fold, the queue, agreement and disagreements, on annotations whose state is known."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reviews import line, targets

from gagpo.agreement import cohen_kappa, krippendorff_alpha, percent_agreement
from gagpo.annotation_record import Record, parse_record
from gagpo.labels import DEFAULT_LABELS, parse_labels
from gagpo.review import State, agreement, disagreements, fold, misfits, ratings, reviewed
from gagpo.review_queue import Progress, Queue
from gagpo.targets import Target

A, B, C, D = targets()


def record(number: int, reviewer: str = "ann", target: Target = A, kind: str = "answer", **own) -> Record:
    raw = line(number, reviewer, kind, target=str(target), **own)
    return parse_record(raw, "test", reviewer)


def answer(number: int, reviewer: str, target: Target, value, question: str = "outcome") -> Record:
    return record(number, reviewer, target, question=question, value=value)


def values(state: State) -> dict:
    return {place: {who: r.value for who, r in given.items()} for place, given in state.answers.items()}


def test_a_later_answer_takes_the_place_of_an_earlier_one():
    records = [
        answer(1, "ann", A, "solved"),
        answer(2, "bob", A, "failed"),
        answer(3, "ann", A, "failed"),
        answer(4, "ann", B, "solved"),
    ]
    assert values(fold(records)) == {
        (A, "outcome"): {"ann": "failed", "bob": "failed"},
        (B, "outcome"): {"ann": "solved"},
    }
    same_time = [answer(1, "ann", A, "solved"), answer(1, "ann", A, "failed")]
    same_time[1] = parse_record(line(1, value="failed", target=str(A)) | {"id": "id99999999"}, "test", "ann")
    assert values(fold(same_time[::-1]))[A, "outcome"] == {"ann": "failed"}  # of one time, the larger id


def test_a_retraction_brings_the_earlier_answer_back():
    records = [
        answer(1, "ann", A, "solved"),
        answer(2, "ann", A, "failed"),
        record(3, kind="retract", of="id00000002"),
    ]
    assert values(fold(records)) == {(A, "outcome"): {"ann": "solved"}}
    assert fold([*records, record(4, kind="retract", of="id00000001")]).answers == {}
    early = record(0, kind="retract", of="id00000001")  # by a clock that was slow: it counts all the same
    assert fold([records[0], early]).answers == {}


def test_comments_in_their_latest_words():
    records = [
        record(1, kind="comment", text="one"),
        record(2, kind="comment", text="two"),
        record(3, kind="edit", of="id00000001", text="one!"),
        record(4, kind="edit", of="id00000001", text="one?"),
        record(5, "bob", kind="comment", text="three"),
        record(6, kind="retract", of="id00000002"),
    ]
    state = fold(records)
    assert [(c.record.reviewer, c.text, c.edited) for c in state.comments] == [
        ("ann", "one?", records[3].time),
        ("bob", "three", ""),
    ]
    back = fold([*records, record(7, kind="retract", of="id00000004")])
    assert back.comments[0].text == "one!"
    slow_clock = [record(3, kind="comment", text="one"), record(1, kind="edit", of="id00000003", text="1")]
    assert fold(slow_clock).comments[0].text == "1"


def test_tags_add_up_and_are_taken_off_by_who_gave_them():
    records = [
        record(1, kind="tags", add=["x", "y"]),
        record(2, "bob", kind="tags", add=["x"]),
        record(3, kind="tags", add=["z"], remove=["x"]),
        record(4, kind="tags", remove=["never given"]),
    ]
    given = {tag: sorted(who) for tag, who in fold(records).tags[A].items()}
    assert given == {"y": ["ann"], "x": ["bob"], "z": ["ann"]}
    undone = fold([*records, record(5, kind="retract", of="id00000003")]).tags[A]
    assert sorted(undone["x"]) == ["ann", "bob"] and "z" not in undone
    assert fold([*records[:1], record(5, kind="tags", remove=["x", "y"])]).tags == {}


def test_what_concerns_nothing_is_told_and_changes_nothing():
    base = [answer(1, "ann", A, "solved"), record(2, kind="retract", of="id00000009")]
    odd = [
        record(3, "bob", kind="retract", of="id00000001"),  # another's
        record(4, kind="edit", of="id00000001", text="x"),  # no comment
        record(5, kind="retract", of="id00000002"),  # a retraction
        record(6, kind="retract", of="id00000006"),  # itself
    ]
    state = fold([*base, *odd])
    assert values(state) == {(A, "outcome"): {"ann": "solved"}} and len(state.problems) == 5
    assert state.problems[0] == 'ann: retract id00000002 of "id00000009", which is not there'
    assert state.problems[1].startswith("bob: ") and "has the kind answer" in state.problems[2]


@st.composite
def histories(draw) -> list[Record]:
    """Records of two reviewers about one or two things, with ties in time and links to anything."""
    made = []
    for number in range(draw(st.integers(0, 9))):
        kind = draw(st.sampled_from(["answer", "tags", "comment", "edit", "retract"]))
        own: dict = {}
        if kind == "answer":
            own["value"] = draw(st.sampled_from(["solved", "failed"]))
        if kind == "tags":
            own |= {"add": [draw(st.sampled_from("xyz"))], "remove": [draw(st.sampled_from("xyz"))]}
        if kind in ("comment", "edit"):
            own["text"] = draw(st.sampled_from(["one", "two"]))
        if kind in ("edit", "retract"):
            own["of"] = f"id{draw(st.integers(0, 9)):08d}"
        reviewer, target = draw(st.sampled_from(["ann", "bob"])), draw(st.sampled_from([A, B]))
        raw = line(number, reviewer, kind, target=str(target), **own)
        raw["time"] = f"2026-12-03T14:00:00.{draw(st.integers(0, 3)):06d}Z"
        made.append(parse_record(raw, "test", reviewer))
    return made


@settings(max_examples=300, deadline=None)
@given(histories(), st.randoms())
def test_the_fold_depends_on_neither_order_nor_repetition(records, random):
    moved = [*records, *random.sample(records, len(records) // 2)]
    random.shuffle(moved)
    assert fold(moved) == fold(records)


@settings(max_examples=200, deadline=None)
@given(histories())
def test_the_fold_is_that_of_a_slow_reading(records):
    """A plain reading of the rules: for each place, look for the last record that was not retracted."""

    def lives(r: Record) -> bool:
        return not any(q.kind == "retract" and q.of == r.id and q.reviewer == r.reviewer for q in records)

    held = sorted((r for r in records if lives(r) and r.kind != "retract"), key=lambda r: (r.time, r.id))
    state = fold(records)
    for who in ("ann", "bob"):
        for target in (A, B):
            own = [r for r in held if r.reviewer == who and r.target == target]
            answers = [r.value for r in own if r.kind == "answer"]
            found = state.answers.get((target, "outcome"), {}).get(who)
            assert (found and found.value) == (answers[-1] if answers else None)
            for tag in "xyz":
                marks = [tag not in r.remove for r in own if r.kind == "tags" and tag in r.add + r.remove]
                is_given = who in state.tags.get(target, {}).get(tag, {})
                assert is_given == (bool(marks) and marks[-1])
            comments = {}
            for r in own:
                if r.kind == "comment":
                    edits = [e for e in held if e.kind == "edit" and e.of == r.id and e.reviewer == who]
                    comments[r.id] = edits[-1].text if edits else r.text
            mine = [c for c in state.comments if c.record.reviewer == who and c.record.target == target]
            assert {c.record.id: c.text for c in mine} == comments


LABELS = parse_labels(
    b"""{"name": "n", "questions": [
    {"id": "outcome", "kind": "choice", "ask": "?", "required": true, "options": ["solved", "failed"]},
    {"id": "sure", "kind": "flag", "ask": "?", "required": true},
    {"id": "cause", "kind": "choices", "ask": "?", "options": ["x", "y"]},
    {"id": "care", "kind": "scale", "ask": "?", "low": 1, "high": 5},
    {"id": "why", "kind": "text", "ask": "?"}]}"""
)


def test_a_trajectory_is_reviewed_once_all_required_questions_are_answered():
    step = Target(A.iteration, A.task_id, A.sibling, 1)
    records = [
        answer(1, "ann", A, "solved"),
        answer(2, "ann", A, True, "sure"),
        answer(3, "ann", B, "solved"),
        answer(4, "bob", A, "fine"),  # not an option
        answer(5, "bob", A, True, "sure"),
        answer(6, "bob", step, "solved"),  # not of a trajectory
        record(7, "bob", C, kind="comment", text="x"),
    ]
    state = fold(records)
    assert reviewed(state, LABELS) == {("ann", A)}
    told = misfits(state, LABELS)
    assert len(told) == 2 and "expected one of solved, failed" in told[0] and "about a step" in told[1]
    assert misfits(fold([answer(1, "ann", A, 1, "gone")]), LABELS) == [
        f"ann: {A}: question: unknown question 'gone'"
    ]
    open_set = parse_labels(b'{"name": "n", "questions": [{"id": "q", "kind": "text", "ask": "?"}]}')
    tag = record(8, "cy", step, kind="tags", add=["t"])
    everything = {("ann", A), ("ann", B), ("bob", A), ("bob", C), ("cy", A)}
    assert reviewed(fold([*records, tag]), open_set) == everything


def test_everybody_sees_the_queue_in_one_order():
    many = [Target(1, f"task {i}", s) for i in range(30) for s in range(2)]
    queue, again = Queue(many, seed=3), Queue(many[::-1], seed=3)
    assert queue.order == again.order and set(queue.order) == set(many)
    assert queue.order != Queue(many, seed=4).order and list(queue.order) != many
    fewer = Queue(many[::2], seed=3).order
    assert [t for t in queue.order if t in set(fewer)] == list(fewer)  # more trajectories, same order
    assert queue.assigned("anybody") == queue.order
    # Fixed for good: reviewers on two machines must get the same.
    assert Queue([A, B, C, D]).order == (B, D, C, A)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 6), st.data())
def test_overlap_deals_evenly(num_targets, num_reviewers, data):
    overlap = data.draw(st.integers(1, num_reviewers))
    names = [f"r{i}" for i in range(num_reviewers)]
    queue = Queue([Target(1, f"t{i}", 0) for i in range(num_targets)], reviewers=names, overlap=overlap)
    dealt = {name: queue.assigned(name) for name in names}
    for target in queue.order:
        assert sum(target in own for own in dealt.values()) == overlap
    sizes = [len(own) for own in dealt.values()]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == overlap * num_targets
    for own in dealt.values():
        assert list(own) == [target for target in queue.order if target in own]


def test_overlap_pairs_every_two_reviewers():
    queue = Queue([Target(1, f"t{i}", 0) for i in range(60)], reviewers=["a", "b", "c", "d"], overlap=2)
    for first, second in permutations("abcd", 2):
        assert len(set(queue.assigned(first)) & set(queue.assigned(second))) >= 3


def test_progress_and_whose_turn_it_is():
    queue = Queue([A, B, C, D])
    first, second, third, last = queue.order
    done = {("ann", first), ("ann", third), ("bob", second)}
    assert queue.progress("ann", done) == Progress(2, 4) and queue.progress("cy", done) == Progress(0, 4)
    assert queue.next_target("ann", done) == second
    assert queue.next_target("ann", done, after=second) == last
    assert queue.next_target("ann", done, after=last) == second  # from the start again
    assert queue.next_target("ann", done, after=Target(9, "gone", 0)) == second
    assert queue.next_target("ann", {("ann", target) for target in queue.order}) is None
    assert Queue([]).next_target("ann", set()) is None


def test_what_is_no_queue_is_refused():
    for call, told in [
        (lambda: Queue([A, A]), "each once"),
        (lambda: Queue([Target(1, "a", 0, 1)]), "whole trajectories"),
        (lambda: Queue([A], reviewers=["a", "a"]), "twice"),
        (lambda: Queue([A], reviewers=["../a"]), "reviewers: '../a'"),
        (lambda: Queue([A], reviewers=["a"], overlap=2), "overlap: 2; expected 1 to 1"),
        (lambda: Queue([A], overlap=0), "overlap: 0"),
        (lambda: Queue([A], reviewers=["a"], overlap=1).assigned("b"), "reviewer: 'b'; expected one of a"),
    ]:
        with pytest.raises(ValueError, match=told):
            call()


def answered(question: str, table: dict[Target, dict[str, object]]) -> State:
    given = [(t, who, value) for t, row in table.items() for who, value in row.items()]
    return fold([answer(i, who, t, value, question) for i, (t, who, value) in enumerate(given)])


def test_agreement_is_that_of_the_matrix():
    table = {
        A: {"ann": 1, "bob": 2, "cy": 1},
        B: {"ann": 4, "bob": 4},
        C: {"ann": 5, "cy": 3},
        D: {"bob": 2},
    }
    state = answered("care", table)
    names, found, matrix = ratings(state, LABELS.question("care"))
    nan = math.nan
    wanted = {A: [1, 2, 1], B: [4, 4, nan], C: [5, nan, 3], D: [nan, 2, nan]}
    assert names == ["ann", "bob", "cy"]
    np.testing.assert_array_equal(matrix, [wanted[target] for target in found])
    (row,) = agreement(state, LABELS, num_resamples=50, seed=1)
    how = {"num_resamples": 50, "seed": 1}
    assert (row.question, row.option, row.reviewers) == ("care", "", ("ann", "bob", "cy"))
    assert row.alpha == krippendorff_alpha(matrix, "ordinal", **how)
    assert row.percent == percent_agreement(matrix, **how) and row.percent.estimate == 2 / 5
    assert row.kappa["ann", "bob"] == cohen_kappa(matrix[:, :2], "quadratic", **how)
    assert list(row.kappa) == [("ann", "bob"), ("ann", "cy"), ("bob", "cy")]


def test_options_are_compared_one_by_one_and_words_not_at_all():
    state = answered("cause", {A: {"ann": ["x"], "bob": ["x", "y"]}, B: {"ann": [], "bob": []}})
    rows = {row.option: row for row in agreement(state, LABELS, num_resamples=0)}
    assert rows["x"].alpha.estimate == 1 and rows["y"].percent.estimate == 0.5
    assert agreement(answered("why", {A: {"ann": "x", "bob": "y"}}), LABELS) == []
    choice = answered("outcome", {A: {"ann": "failed", "bob": "solved"}})
    assert ratings(choice, LABELS.question("outcome"))[2].tolist() == [[1, 0]]
    flag = answered("sure", {A: {"ann": True, "bob": False}})
    assert ratings(flag, LABELS.question("sure"))[2].tolist() == [[1, 0]]


def test_reviewers_who_share_nothing_have_no_kappa():
    (row,) = agreement(answered("sure", {A: {"ann": True}, B: {"bob": True}}), LABELS)
    assert row.kappa == {} and "no unit" in row.alpha.reason


def test_disagreements_begin_with_the_widest():
    state = answered("care", {A: {"ann": 1, "bob": 2}, B: {"ann": 5, "bob": 1}, C: {"ann": 3, "bob": 3}})
    more = answered("outcome", {D: {"ann": "solved", "bob": "failed", "cy": "fine"}, A: {"ann": "solved"}})
    state = State(answers=state.answers | more.answers)
    found = [(d.question, d.target, d.values, d.spread) for d in disagreements(state, LABELS)]
    assert found == [
        ("outcome", D, {"ann": "solved", "bob": "failed"}, 1),  # "fine" is no answer to it
        ("care", B, {"ann": 5, "bob": 1}, 4),
        ("care", A, {"ann": 1, "bob": 2}, 1),
    ]
    assert disagreements(answered("why", {A: {"ann": "x", "bob": "y"}}), DEFAULT_LABELS) == []
