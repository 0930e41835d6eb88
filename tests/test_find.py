"""Searches are held against loops over the records; files come, change, go, and may be damaged."""

from __future__ import annotations

import operator
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.find import SNIPPET, Finder, Hit
from gagpo.query import FIELDS, NUMBERS, TEXTS, Query, QueryError, Term, parse_query
from gagpo.steps_file import read_credit, read_steps, read_trajectories
from gagpo.store import Run, open_run
from gagpo.table import Credit, Outcome, Step, StepTable, Trajectory
from gagpo.texts import match_span

ROOT = Path(__file__).resolve().parents[1]


def played(task: str, sibling: int, *steps: tuple, **changes) -> Trajectory:
    """A trajectory of (observation, state, action, reward, valid) steps."""
    made = tuple(
        Step(seen, state, (), action, (), (7,), (-0.5,), float(reward), valid)
        for seen, state, action, reward, valid in steps
    )
    known = {"outcome": Outcome.TERMINATED, "success": True, "goal": "Put a Mug into the fridge."}
    known |= {"final_observation": "The end.", "final_state_key": "z", "seed": 5}
    return Trajectory(task_id=task, sibling=sibling, steps=made, **(known | changes))


TWO = [
    played(
        "t/1",
        0,
        ("You see a mug.", "a", "take mug", 0, True),
        ("In hand: a MUG", "b", "open fridge", 1, True),
    ),
    played(
        "t/1",
        1,
        ("You see a mug.", "a", "eat <b>mug</b>", 0, False),
        ("Nothing.", "c", "look", 0, True),
        outcome=Outcome.TRUNCATED,
        success=False,
        final_observation="Straße 12 [mug]",
    ),
]
OTHER = [played("T/2", 0, ("Dark.", "d", "light lamp", 2, True), goal="Find the lamp", policy_version=3)]


def record(run: Run, iteration: int, trajectories: list[Trajectory]) -> None:
    table = StepTable.from_trajectories(trajectories)
    credit = assign_credit(table, CreditConfig(gamma=0.5))
    run.write_steps(iteration, trajectories, table, credit, [np.zeros(1, np.float32)] * table.num_steps)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = open_run(tmp_path, "mine")
    record(run, 1, TWO)
    record(run, 12, OTHER)
    return run


def places(finder: Finder, query: str) -> list[str]:
    """Hits as run/iteration/task/sibling/step, without the run where it is "mine"."""
    hits = finder.search(query).hits
    told = [f"{h.run}:{h.iteration}:{h.task}:{h.sibling}:{h.step}" for h in hits]
    return [place.removeprefix("mine:") for place in told]


A0, A1, B0, B1, C0 = "1:t/1:0:0", "1:t/1:0:1", "1:t/1:1:0", "1:t/1:1:1", "12:T/2:0:0"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [A0, A1, B0, B1, C0]),
        ("MUG", [A0, A1, B0, B1]),  # the goal
        ("observation:mug", [A0, A1, B0]),
        ("action:mug -valid:false", [A0]),
        ("final:mug", [B1]),
        ("final:end", [A1, C0]),
        ("strasse", [B1]),
        ("STRAßE -eat", [B1]),
        ('"see a mug" action:take', [A0]),
        ("lamp dark", [C0]),
        ("-mug", [C0]),
        ("task:t/", [A0, A1, B0, B1, C0]),
        ("task=t/2", [C0]),
        ("task=t/", []),
        ("observation=dark.", [C0]),
        ("action:<b>", [B0]),
        ("mug.", [A0, B0]),
        ("mu.", []),  # no pattern: the dot stands for itself
        ("m*g", []),
        ("success:false", [B0, B1]),
        ("outcome:truncated valid:true", [B1]),
        ("reward>0", [A1, C0]),
        ("reward:2", [C0]),
        ("reward>=1 reward<2", [A1]),
        ("step>0", [A1, B1]),
        ("anchor_size=2", [A0, B0]),
        ("-anchor_size<=1", [A0, B0]),
        # R = 0.5, 1 and -0.1, 0: penalty 0.1, gamma 0.5; V(a) = 0.2
        ("value>0.19 value<0.21", [A0, B0]),
        ("return_to_go=0.5", [A0]),
        ("td_error>0.29 td_error<0.31", [A0]),
        ("iteration:12", [C0]),
        ("iteration<12 sibling:1", [B0, B1]),
        ("run:MINE step:0", [A0, B0, C0]),
        ("run:min", []),
        ("seed:5 policy_version:3", [C0]),
        ("cut_off:true", []),
    ],
)
def test_hand_made_searches(run: Run, query: str, expected: list[str]) -> None:
    finder = Finder(run)
    found = finder.search(query)
    assert places(finder, query) == expected
    assert found.total == len(expected) and found.num_steps == 5
    counted = {c.iteration: c.num for c in found.counts}
    assert counted == {i: n for i in (1, 12) if (n := sum(e.startswith(f"{i}:") for e in expected))}


def test_a_hit_shows_where_the_text_stands(run: Run) -> None:
    finder = Finder(run)
    shown = [(h.field, h.snippet[h.start : h.end], h.row) for h in finder.search("mug step:0").hits]
    assert shown == [("observation", "mug", 0), ("observation", "mug", 2)]
    (hit,) = finder.search("strasse").hits
    assert (hit.field, hit.snippet, hit.start, hit.end) == ("final", "Straße 12 [mug]", 0, 6)
    (hit,) = finder.search("iteration:12").hits
    assert (hit.field, hit.snippet, hit.start, hit.end, hit.length) == ("action", "light lamp", 0, 0, 10)
    (hit,) = finder.search("-mug goal:lamp").hits
    assert (hit.field, hit.snippet[hit.start : hit.end]) == ("goal", "lamp")


def test_snippets_of_long_texts(tmp_path: Path) -> None:
    long = "x" * 500 + "needle" + "y" * 500
    run = open_run(tmp_path, "r")
    record(run, 1, [played("t", 0, (long, "a", "go", 0, True), ("n" * 999, "b", "go", 0, True))])
    (hit,) = Finder(run).search("NEEDLE").hits
    assert len(hit.snippet) == SNIPPET and hit.snippet[hit.start : hit.end] == "needle"
    assert long[hit.at : hit.at + SNIPPET] == hit.snippet and hit.length == 1006
    (hit,) = Finder(run).search("n" * 300).hits
    assert (hit.at, hit.start, hit.end) == (0, 0, SNIPPET), "a match longer than a snippet fills it"
    (hit,) = Finder(run).search("needle" + "y" * 500).hits
    assert hit.snippet[hit.start : hit.end] == long[hit.at + hit.start :][: hit.end - hit.start]


def test_pages_of_hits(run: Run) -> None:
    finder = Finder(run)
    whole = finder.search("").hits
    for start in range(7):
        page = finder.search("", limit=2, start=start)
        assert page.hits == whole[start : start + 2] and page.total == 5
    assert finder.search("", limit=0).hits == ()
    with pytest.raises(ValueError, match="limit, start: -1, 0; expected"):
        finder.search("", limit=-1)


def test_several_runs_in_the_order_given(run: Run, tmp_path: Path) -> None:
    other = open_run(tmp_path, "another")
    record(other, 3, OTHER)
    assert places(Finder([run, other]), "lamp") == [C0, "another:3:T/2:0:0"]
    assert places(Finder([other, run]), "lamp") == ["another:3:T/2:0:0", C0]
    assert places(Finder([other, run]), "-run:mine") == ["another:3:T/2:0:0"]
    with pytest.raises(ValueError, match="runs: mine, mine; expected different names"):
        Finder([run, run])


def test_nothing_recorded_yet(tmp_path: Path) -> None:
    finder = Finder([Run(tmp_path / "gone"), open_run(tmp_path, "empty")])
    found = finder.search("mug success:true run:empty outcome:error")
    assert (found.total, found.hits, found.counts, found.num_steps) == (0, (), (), 0)
    assert Finder([]).search("").total == 0


def test_files_that_come_change_and_go(run: Run) -> None:
    finder = Finder(run)
    assert finder.refresh() == 0
    record(run, 2, OTHER)
    assert finder.search("lamp").total == 1
    assert finder.refresh() == 1
    assert places(finder, "lamp") == ["2:T/2:0:0", C0], "by iteration, not by arrival"
    run.steps_path(12).unlink()
    record(run, 2, TWO)  # a resumed run makes it anew
    assert finder.refresh() == 2
    assert finder.search("lamp").total == 0 and finder.num_steps == 8
    shutil.rmtree(run.path / "steps")
    assert finder.refresh() == 2 and finder.search("").total == 0


def test_damaged_and_foreign_files_are_told_and_the_others_searched(run: Run) -> None:
    steps = run.path / "steps"
    whole = run.steps_path(1).read_bytes()
    run.steps_path(2).write_bytes(whole[:-9])
    run.steps_path(3).write_bytes(b"")
    table = read_steps(run.steps_path(1))
    pq.write_table(table.drop_columns(["advantage"]), run.steps_path(4))
    pq.write_table(table.slice(1), run.steps_path(5))
    pq.write_table(table.slice(0, 0), run.steps_path(6))
    pq.write_table(table.append_column("reward", table["reward"]), run.steps_path(7))
    (steps / "000008.parquet").mkdir()
    for name in ("12.parquet", "²³.parquet", "notes.parquet", "-00001.parquet", "9" * 200 + ".parquet"):
        (steps / name).write_bytes(whole)
    os.mkfifo(steps / "000009.parquet")  # opening it would wait forever
    (steps / "000010.parquet").symlink_to("nowhere")
    (steps / "notes.txt").write_text("not looked at")
    finder = Finder(run)
    assert finder.num_steps == 5
    told = {problem.path.name: problem.message for problem in finder.problems}
    expected = {
        "000002.parquet": "not a readable Parquet file",
        "000003.parquet": "not a readable Parquet file",
        "000004.parquet": "'advantage' is missing",
        "000005.parquet": "not whole trajectories",
        "000006.parquet": "not whole trajectories",
        "000007.parquet": "'reward' occurs twice",
        "000008.parquet": "not a regular file",
        "000009.parquet": "not a regular file",
        "000010.parquet": "not a readable Parquet file",
        "12.parquet": "its name is not an iteration's",
        "²³.parquet": "its name is not an iteration's",
        "notes.parquet": "its name is not an iteration's",
        "-00001.parquet": "its name is not an iteration's",
        "9" * 200 + ".parquet": "too large",
    }
    assert told.keys() == expected.keys()
    for name, part in expected.items():
        assert part in told[name], name
    assert finder.refresh() == 0, "a damaged file is read again only when it has changed"
    run.steps_path(2).write_bytes(whole)
    assert finder.refresh() == 1 and finder.num_steps == 9
    run.steps_path(2).write_bytes(whole[:-9])
    assert finder.refresh() == 1 and finder.num_steps == 5


@pytest.mark.parametrize(
    "text", ["(a+)+$", "%", "\\", "\0", "\ud800", "'; DROP TABLE x --", "{0.__class__}", "[^]"]
)
def test_hostile_texts_stand_for_themselves(text: str, run: Run, tmp_path: Path) -> None:
    query = str(Query((Term(text),)))
    assert Finder(run).search(query).total == 0
    if text != "\ud800":  # no file can hold it
        other = open_run(tmp_path, "hostile")
        record(other, 1, [played("t", 0, (f"a{text}b", "a", "go", 0, True))])
        (hit,) = Finder(other).search(query).hits
        assert (hit.start, hit.end, hit.snippet) == (1, 1 + len(text), f"a{text}b")


def test_terms_that_no_text_can_say_are_refused(run: Run) -> None:
    for term in (Term("x", "acton"), Term("x", "reward"), Term(""), Term(1.0, "goal", "<")):
        with pytest.raises(QueryError):
            Finder(run).search(Query((term,)))


LETTERS = st.text(st.sampled_from("aAßsİi̇ .x"), max_size=6)


@given(LETTERS, LETTERS)
def test_a_span_is_the_least_that_folds_to_the_match(text: str, wanted: str) -> None:
    start, end = match_span(text, wanted)
    part = wanted.casefold()
    if part not in text.casefold() or not part:
        assert (start, end) == (0, 0)
        return
    assert part in text[start:end].casefold()
    assert part not in text[start + 1 : end].casefold() and part not in text[start : end - 1].casefold()
    assert part not in text[: end - 1].casefold(), "the first match"


# A slow search, with nothing in common with the fast one but the records and the terms.
COMPARE = {":": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def holds(term: Term, trajectory: Trajectory, t: int, numbers: dict[str, float], run_id: str) -> bool:
    step, last = trajectory.steps[t], t == len(trajectory.steps) - 1
    texts = {"observation": step.observation, "action": step.action, "goal": trajectory.goal}
    texts |= {"task": trajectory.task_id, "final": trajectory.final_observation if last else ""}
    if term.field is None or term.field in texts:
        looked = texts.values() if term.field is None else [texts[term.field]]
        wanted = term.value.casefold()
        return any(wanted == x.casefold() if term.operator == "=" else wanted in x.casefold() for x in looked)
    if term.field == "run":
        return run_id.casefold() == term.value.casefold()
    if term.field == "outcome":
        return trajectory.outcome.name.lower() == term.value
    flags = {"success": trajectory.success, "valid": step.valid, "cut_off": step.cut_off}
    if term.field in flags:
        return flags[term.field] == term.value
    return COMPARE[term.operator](numbers[term.field], term.value)


def slow_search(runs: list[Run], query: str) -> list[tuple]:
    found = []
    for run in runs:
        for iteration in run.iterations_with_steps():
            table = read_steps(run.steps_path(iteration))
            credit, row = read_credit(table), 0
            for trajectory in read_trajectories(table):
                for t, step in enumerate(trajectory.steps):
                    numbers = {f.name: float(getattr(credit, f.name)[row]) for f in fields(Credit)}
                    numbers |= {"iteration": iteration, "sibling": trajectory.sibling, "step": t}
                    numbers |= {"seed": trajectory.seed, "reward": step.reward}
                    numbers |= {"policy_version": trajectory.policy_version}
                    terms = parse_query(query).terms
                    if all(
                        holds(term, trajectory, t, numbers, run.run_id) != term.excluded for term in terms
                    ):
                        found.append((run.run_id, iteration, trajectory.task_id, trajectory.sibling, t, row))
                    row += 1
    return found


def place(hit: Hit) -> tuple:
    return hit.run, hit.iteration, hit.task, hit.sibling, hit.step, hit.row


WORDS = st.lists(st.sampled_from(["mug", "Mug", "go", "ß", "SS", "a:b", " ", "x"]), max_size=3).map("".join)
STEPS = st.tuples(WORDS, st.sampled_from("ab"), WORDS, st.integers(-1, 2), st.booleans())
TRAJECTORIES = st.builds(
    lambda task, sibling, steps, goal, outcome, success, final: played(
        task, sibling, *steps, goal=goal, outcome=outcome, success=success, final_observation=final
    ),
    *(st.sampled_from(["t", "T"]), st.integers(0, 2), st.lists(STEPS, min_size=1, max_size=3), WORDS),
    *(st.sampled_from(Outcome), st.booleans(), WORDS),
)
QUERIES = st.lists(
    st.one_of(
        st.builds(Term, WORDS.filter(bool), st.sampled_from((None, *TEXTS)), excluded=st.booleans()),
        st.builds(Term, WORDS, st.sampled_from(TEXTS), st.just("="), st.booleans()),
        st.builds(Term, st.sampled_from(["one", "TWO"]), st.just("run"), excluded=st.booleans()),
        st.builds(Term, st.sampled_from(["error", "truncated"]), st.just("outcome"), excluded=st.booleans()),
        st.builds(
            Term, st.booleans(), st.sampled_from(["success", "valid", "cut_off"]), excluded=st.booleans()
        ),
        st.builds(
            Term,
            st.integers(-1, 3).map(float),
            st.sampled_from(NUMBERS),
            st.sampled_from(list(COMPARE)),
            st.booleans(),
        ),
    ),
    max_size=4,
).map(lambda terms: str(Query(tuple(terms))))


ITERATIONS = st.lists(st.lists(TRAJECTORIES, min_size=1, max_size=3), min_size=2, max_size=4)


@settings(max_examples=40, deadline=None)
@given(ITERATIONS, st.lists(QUERIES, min_size=8))
def test_every_search_finds_what_a_loop_finds(tmp_path_factory, iterations, queries) -> None:
    folder = tmp_path_factory.mktemp("runs")
    runs = [open_run(folder, "one"), open_run(folder, "two")]
    for number, trajectories in enumerate(iterations):
        record(runs[number % 2], number * 7, trajectories)
    finder = Finder(runs)
    for query in queries:
        hits = finder.search(query, limit=10**6).hits
        assert [(h.run, h.iteration, h.task, h.sibling, h.step, h.row) for h in hits] == slow_search(
            runs, query
        )
        for hit in hits:
            assert 0 <= hit.start <= hit.end <= len(hit.snippet) <= hit.length


def page() -> str:
    return (ROOT / "docs" / "searching.md").read_text("utf-8")


def test_the_page_prints_what_it_says() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", page(), re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```python\n.*?^```", "", page(), flags=re.DOTALL | re.MULTILINE)
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert printed.splitlines() == re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE)


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    from gagpo.importers import import_file
    from gagpo.importers.run_folder import write_run

    run = write_run(import_file(ROOT / "widgets" / "example_chats.jsonl"), tmp_path / "chats")
    finder = Finder(run)
    queries, refused = page().split("| query | answer |")
    examples = re.findall(r"^\| `(.+?)` \| [a-z0-9]", queries.split("| fields |")[0], re.MULTILINE)
    assert len(examples) == 17
    for query in examples:
        found = finder.search(query, limit=10**6)
        expected = slow_search([run], query)
        assert 0 < found.total < found.num_steps, query
        assert list(map(place, found.hits)) == expected
    answers = re.findall(r"^\| `(.+?)` \| (query: .+) \|$", refused, re.MULTILINE)
    assert len(answers) == 5
    for query, answer in answers:
        with pytest.raises(QueryError) as caught:
            finder.search(query)
        assert str(caught.value) == answer
    named = set(re.findall(r"`(\w+)`", queries.split("| fields |")[1].split("\n\n")[0]))
    assert named == {*FIELDS, "terminated", "truncated", "error", "true", "false"}
