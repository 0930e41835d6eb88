"""The command `gagpo annotations`: who reviewed how much, how far reviewers agree, and the export."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from gagpo.agreement import Agreement
from gagpo.annotations import read_annotations, reviewers
from gagpo.annotations_export import annotation_table, write_annotations
from gagpo.importers.fields import short
from gagpo.labels import LabelSet, read_labels
from gagpo.review import State, agreement, disagreements, fold, misfits, reviewed
from gagpo.review_queue import Queue
from gagpo.store import Run
from gagpo.targets import RecordedTargets

MAX_TOLD = 20  # problems that are told one by one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every option of `gagpo annotations`."""
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--out", type=Path, help="write every annotation there, as .csv or .parquet")
    parser.add_argument("--agreement", action="store_true", help="how far reviewers agree, and where not")
    parser.add_argument("--iteration", type=int, help="of this one only; of every one by default")
    parser.add_argument("--labels", type=Path, help="label set; by default labels.json of the run, if any")


def annotations_command(arguments: argparse.Namespace) -> str:
    """What is printed, with the export written where one is named. ValueError for what is wrong."""
    run = Run(arguments.run)
    if not run.path.is_dir():
        raise ValueError(f"{run.path}: missing; expected a run folder")
    labels = read_labels(run, arguments.labels)
    found = read_annotations(run)
    only = arguments.iteration
    records = [r for r in found.records if only is None or r.target.iteration == only]
    state, recorded = fold(records), RecordedTargets(run)
    table, missing = annotation_table(state, recorded)
    iterations = {record.target.iteration for record in records} if only is None else {only}
    lines = _progress(run, state, labels, recorded, sorted(iterations))
    if arguments.agreement:
        lines += ["", *_agreement(state, labels), "", *_disagreements(state, labels)]
    problems = [*found.problems, *state.problems, *misfits(state, labels), *missing]
    if problems:
        more = len(problems) - MAX_TOLD
        lines += ["", "problems", *problems[:MAX_TOLD], *([f"and {more} more"] if more > 0 else [])]
    if arguments.out is not None:
        write_annotations(table, arguments.out)
        lines += ["", f"written: {arguments.out}, {table.num_rows} rows"]
    return "\n".join(lines)


def _progress(
    run: Run, state: State, labels: LabelSet, recorded: RecordedTargets, iterations: list[int]
) -> list[str]:
    """A line for each reviewer; reviewed are trajectories of the iterations that annotations are about."""
    there = [i for i in iterations if i in recorded.iterations()]
    queue = Queue([target for i in there for target in recorded.trajectories(i)])
    done = reviewed(state, labels)
    answers = Counter(who for given in state.answers.values() for who in given)
    tags = Counter(who for by_tag in state.tags.values() for given in by_tag.values() for who in given)
    comments = Counter(comment.record.reviewer for comment in state.comments)
    told = ", ".join(map(str, there)) or "none"
    lines = [f"run {run.run_id}, label set {short(labels.name)}, iterations: {told}"]
    lines.append(f"{'reviewer':<20}{'answers':>9}{'comments':>10}{'tags':>6}  reviewed")
    for who in reviewers(run):
        counts = f"{answers[who]:>9}{comments[who]:>10}{tags[who]:>6}"
        progress = queue.progress(who, done)
        lines.append(f"{who:<20}{counts}  {progress.done} of {progress.total} trajectories")
    return lines


def _agreement(state: State, labels: LabelSet) -> list[str]:
    lines, alone = ["agreement, with 95 % intervals"], {}
    for row in agreement(state, labels):
        if not row.percent.num_units:
            alone[row.question] = None
            continue
        name = f"{row.question}: {row.option}" if row.option else row.question
        lines.append(f"{name}: {row.percent.num_units} answered by two or more of {len(row.reviewers)}")
        lines.append(f"  equal pairs  {_estimate(row.percent)}")
        lines.append(f"  alpha        {_estimate(row.alpha)}")
        lines += [f"  kappa        {_estimate(k)}  {a}, {b}" for (a, b), k in row.kappa.items()]
    if alone:
        lines.append(f"nothing answered by two: {', '.join(alone)}")
    return lines if len(lines) > 1 else ["agreement: no answers that can be compared"]


def _estimate(found: Agreement) -> str:
    if found.estimate != found.estimate:
        return f"undefined: {found.reason}"
    if found.reason:
        return f"{found.estimate:.3f} (no interval: {found.reason})"
    return f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _disagreements(state: State, labels: LabelSet) -> list[str]:
    found = disagreements(state, labels)
    lines = [f"disagreements: {len(found)}"]
    for row in found:
        said = ", ".join(f"{who} {short(value)}" for who, value in row.values.items())
        lines.append(f"  {row.question}  {row.target}  {said}")
    return lines
