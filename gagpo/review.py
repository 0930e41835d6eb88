"""What holds of all annotations, and how far reviewers agree.

`fold` makes the state of records, whatever their order: among a reviewer's records the later one, by
(time, id), takes the place of the earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from gagpo.agreement import Agreement, cohen_kappa, krippendorff_alpha, percent_agreement
from gagpo.annotation_record import Record
from gagpo.importers.fields import short
from gagpo.labels import LabelSet, Question, Value
from gagpo.targets import Target

# kind of a question -> (metric of alpha, weights of kappa); answers in words are not compared
COMPARED = {
    "choice": ("nominal", "nominal"),
    "choices": ("nominal", "nominal"),
    "flag": ("nominal", "nominal"),
    "step": ("nominal", "nominal"),
    "scale": ("ordinal", "quadratic"),
}


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in its latest words; `record` is the first, `edited` the time of the last edit or ""."""

    record: Record
    text: str
    edited: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What holds.

    answers   {(target, question): {reviewer: the record of the answer}}
    tags      {target: {tag: {reviewer: the record that gave it}}}
    comments  by time
    problems  edits and retractions that concern nothing that is there, in words
    """

    answers: dict[tuple[Target, str], dict[str, Record]] = field(default_factory=dict)
    tags: dict[Target, dict[str, dict[str, Record]]] = field(default_factory=dict)
    comments: tuple[Comment, ...] = ()
    problems: tuple[str, ...] = ()

    def touched(self) -> set[tuple[str, Target]]:
        """(reviewer, trajectory) of everything that holds."""
        found = {(who, t.trajectory) for (t, _), given in self.answers.items() for who in given}
        found |= {
            (w, t.trajectory) for t, tags in self.tags.items() for given in tags.values() for w in given
        }
        return found | {(c.record.reviewer, c.record.target.trajectory) for c in self.comments}


def fold(records: Iterable[Record]) -> State:
    """What holds once every record is taken into account; each (reviewer, id) counts once.

    A retraction takes its record away for good, whatever their times; a retraction itself stays.
    """
    known: dict[tuple[str, str], Record] = {}
    for record in sorted(records, key=lambda r: (r.time, r.reviewer, r.id)):
        known.setdefault((record.reviewer, record.id), record)
    gone: set[tuple[str, str]] = set()
    problems = []
    for (who, _), record in known.items():
        if record.kind in ("edit", "retract"):
            of = known.get((who, record.of))
            if of is None or of.kind == "retract" or (record.kind == "edit" and of.kind != "comment"):
                what = "is not there" if of is None else f"has the kind {of.kind}"
                problems.append(f"{who}: {record.kind} {record.id} of {short(record.of)}, which {what}")
            elif record.kind == "retract":
                gone.add((who, record.of))
    held = [record for place, record in known.items() if place not in gone]
    state = State(problems=tuple(problems))
    words: dict[tuple[str, str], Comment] = {}
    for record in held:
        if record.kind == "answer":
            state.answers.setdefault((record.target, record.question), {})[record.reviewer] = record
        elif record.kind == "tags":
            _tag(state, record)
        elif record.kind == "comment":
            words[record.reviewer, record.id] = Comment(record, record.text)
    for record in held:
        place = (record.reviewer, record.of)
        if record.kind == "edit" and place in words:
            words[place] = Comment(words[place].record, record.text, record.time)
    return replace(state, comments=tuple(words.values()))


def _tag(state: State, record: Record) -> None:
    tags = state.tags.setdefault(record.target, {})
    for tag in record.add:
        tags.setdefault(tag, {})[record.reviewer] = record
    for tag in record.remove:
        if tags.get(tag, {}).pop(record.reviewer, None) and not tags[tag]:
            del tags[tag]
    if not tags:
        del state.tags[record.target]


def reviewed(state: State, labels: LabelSet) -> set[tuple[str, Target]]:
    """(reviewer, trajectory) where the reviewer answered every required question, or, in a label set
    that requires none, said anything."""
    if not labels.required:
        return state.touched()
    answered: dict[tuple[str, Target], int] = {}
    for name in labels.required:
        for target, given in _fitting(state, labels.questions[name]):
            for who in given:
                answered[who, target] = answered.get((who, target), 0) + 1
    return {place for place, count in answered.items() if count == len(labels.required)}


def misfits(state: State, labels: LabelSet) -> list[str]:
    """Answers that the label set does not admit, in words; they are kept, and count for nothing else."""
    told = []
    for (target, name), given in state.answers.items():
        for who, record in given.items():
            try:
                labels.question(name).check(record.value, target)
            except ValueError as error:
                told.append(f"{who}: {target}: {error}")
    return told


@dataclass(frozen=True, slots=True)
class Compared:
    """How far reviewers agree on a question, or on one option of a question with several answers.

    `kappa` is of every two reviewers who answered of one thing, quadratic for scales; alpha is ordinal
    for scales; both are nominal otherwise.
    """

    question: str
    option: str
    reviewers: tuple[str, ...]
    percent: Agreement
    alpha: Agreement
    kappa: dict[tuple[str, str], Agreement]


def agreement(state: State, labels: LabelSet, num_resamples: int = 1000, seed: int = 0) -> list[Compared]:
    """Of every question that has answers and is not answered in words, in the order of the label set."""
    how = {"num_resamples": num_resamples, "seed": seed}
    rows = []
    for question in labels.questions.values():
        options = [option.id for option in question.options] if question.kind == "choices" else [""]
        for option in options if question.kind in COMPARED else []:
            names, _, matrix = ratings(state, question, option)
            if not names:
                continue
            metric, weights = COMPARED[question.kind]
            kappa = {}
            for i, j in combinations(range(len(names)), 2):
                if not np.isnan(matrix[:, i] + matrix[:, j]).all():
                    kappa[names[i], names[j]] = cohen_kappa(matrix[:, [i, j]], weights, **how)
            percent, alpha = percent_agreement(matrix, **how), krippendorff_alpha(matrix, metric, **how)
            rows.append(Compared(question.id, option, tuple(names), percent, alpha, kappa))
    return rows


def ratings(state: State, question: Question, option: str = "") -> tuple[list[str], list[Target], np.ndarray]:
    """(reviewers, targets, answers as a matrix (targets, reviewers) with NaN where there is none).

    A choice counts as its place among the options; of `choices` it is 1 where `option` was among them;
    a flag counts as 0 or 1. Reviewers and targets are sorted.
    """
    found = sorted(_fitting(state, question), key=lambda item: str(item[0]))
    names = sorted({who for _, given in found for who in given})
    matrix = np.full((len(found), len(names)), np.nan)
    ids = [option.id for option in question.options]
    for row, (_, given) in enumerate(found):
        for who, record in given.items():
            value = record.value
            if question.kind in ("choice", "choices"):
                value = ids.index(value) if question.kind == "choice" else option in value
            matrix[row, names.index(who)] = float(value)
    return names, [target for target, _ in found], matrix


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Answers of one thing that differ; `spread` is the range on a scale, else how many differ less 1."""

    question: str
    target: Target
    values: dict[str, Value]
    spread: int


def disagreements(state: State, labels: LabelSet) -> list[Disagreement]:
    """By question in the order of the label set, the widest spread first, then by target."""
    found = []
    for question in labels.questions.values():
        rows = []
        for target, given in _fitting(state, question) if question.kind in COMPARED else []:
            values = {who: given[who].value for who in sorted(given)}
            distinct = set(values.values())
            if len(distinct) > 1:
                spread = max(distinct) - min(distinct) if question.kind == "scale" else len(distinct) - 1
                rows.append(Disagreement(question.id, target, values, spread))
        found += sorted(rows, key=lambda row: (-row.spread, str(row.target)))
    return found


def _fitting(state: State, question: Question) -> Iterator[tuple[Target, dict[str, Record]]]:
    """(target, {reviewer: answer}) of the answers to a question that it admits."""
    for (target, name), given in state.answers.items():
        if name == question.id:
            admitted = {who: record for who, record in given.items() if _admits(question, record)}
            if admitted:
                yield target, admitted


def _admits(question: Question, record: Record) -> bool:
    try:
        question.check(record.value, record.target)
    except ValueError:
        return False
    return True
