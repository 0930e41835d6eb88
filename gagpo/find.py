"""Search in the steps of one run or several: full text and filters, over every recorded iteration.

The columns are held in memory. Every distinct text is kept once, with a number, so that a word is
looked for once in each of them, and rows are found by numbers. `gagpo.query` is the grammar.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from gagpo.query import FLAGS, NUMBERS, OUTCOMES, TEXTS, Query, Term, parse_query
from gagpo.steps_file import read_steps, trajectory_offsets
from gagpo.store import Run
from gagpo.texts import Texts, is_in, match_span

SNIPPET = 160  # characters of a snippet at the most, of which BEFORE come before the match
BEFORE = 40
# A field of TEXTS and the column that it is read from.
COLUMN = {"observation": "observation", "action": "action", "goal": "goal", "task": "task_id"}
COLUMN |= {"final": "final_observation"}
MEASURED = tuple(name for name in NUMBERS if name != "iteration")
READ = (*COLUMN.values(), *FLAGS, *MEASURED, "outcome", "trajectory")


@dataclass(frozen=True, slots=True)
class Hit:
    """A step that was found.

    row      of the step in its steps file
    field    where the snippet is from: what the first text of the query was found in, else "action"
    snippet  part of that text; snippet[start:end] is the match, as far as it fits
    at       where the snippet begins in the whole text, which has `length` characters

    Characters are code points, as in Python; JavaScript counts some of them twice.
    """

    run: str
    iteration: int
    task: str
    sibling: int
    step: int
    row: int
    field: str
    snippet: str
    start: int
    end: int
    at: int
    length: int


@dataclass(frozen=True, slots=True)
class Count:
    """Steps of an iteration that were found."""

    run: str
    iteration: int
    num: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: `total` of `num_steps`, of which `hits` are a part, in the order of the runs
    as given, iterations, and rows. `counts` has every iteration with a hit, in the same order."""

    query: Query
    num_steps: int
    total: int
    counts: tuple[Count, ...]
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that cannot be searched, and why."""

    path: Path
    message: str


@dataclass(slots=True, eq=False)
class _Piece:
    """The columns of one steps file, and what the file looked like when it was read."""

    run: int
    iteration: int
    mark: tuple[int, ...]
    columns: dict[str, np.ndarray]


class Finder:
    """The steps of some runs, ready to be searched. `refresh` reads what was recorded since."""

    def __init__(self, runs: Run | Sequence[Run]) -> None:
        self.runs = [runs] if isinstance(runs, Run) else list(runs)
        names = [run.run_id for run in self.runs]
        if len(set(names)) < len(names):
            raise ValueError(f"runs: {', '.join(names)}; expected different names")
        self._texts = Texts()
        self._pieces: dict[Path, _Piece] = {}
        self._problems: dict[Path, tuple[tuple[int, ...], str]] = {}
        self._columns: dict[str, np.ndarray] = {}
        self._starts = np.zeros(1, np.int64)
        self.refresh()

    @property
    def num_steps(self) -> int:
        return int(self._starts[-1])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Files in the `steps` folders that are damaged or foreign; the others are searched."""
        return tuple(Problem(path, message) for path, (_, message) in sorted(self._problems.items()))

    def refresh(self) -> int:
        """Read the files that are new or were replaced and forget those that are gone; how many."""
        files = [(path, number) for number, run in enumerate(self.runs) for path in _files(run)]
        pieces, problems, changes = {}, {}, 0
        for path, run in files:
            mark = _mark(path)
            if path in self._pieces and self._pieces[path].mark == mark:
                pieces[path] = self._pieces[path]
            elif path in self._problems and self._problems[path][0] == mark:
                problems[path] = self._problems[path]
            else:
                changes += 1
                try:
                    pieces[path] = _Piece(run, _iteration(path), mark, self._read(path))
                except (ValueError, OverflowError, pa.ArrowException) as error:
                    problems[path] = (mark, str(error))
        changes += len((self._pieces.keys() | self._problems.keys()) - {path for path, _ in files})
        self._problems = problems
        if changes:
            order = sorted(pieces, key=lambda path: (pieces[path].run, pieces[path].iteration))
            self._join({path: pieces[path] for path in order})
        return changes

    def search(self, query: str | Query, limit: int = 50, start: int = 0) -> Found:
        """The steps where every term holds; of the hits `limit`, after the first `start`."""
        query = parse_query(str(query))  # one that was made by hand is checked, too
        if limit < 0 or start < 0:
            raise ValueError(f"limit, start: {limit}, {start}; expected numbers from 0")
        rows = np.arange(self.num_steps)
        for term in sorted(query.terms, key=_cost):
            rows = rows[self._holds(term, rows) != term.excluded]
        piece = self._piece_of(rows)
        pieces = list(self._pieces.values())
        counts = zip(pieces, np.bincount(piece, minlength=len(pieces)).tolist(), strict=True)
        shown = slice(start, start + limit)
        return Found(
            query=query,
            num_steps=self.num_steps,
            total=len(rows),
            counts=tuple(Count(self.runs[p.run].run_id, p.iteration, num) for p, num in counts if num),
            hits=tuple(
                self._hit(query, pieces[p], p, row)
                for p, row in zip(piece[shown].tolist(), rows[shown].tolist(), strict=True)
            ),
        )

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        """The columns of a steps file, texts as numbers."""
        table = read_steps(path, READ)
        last = trajectory_offsets(table)[1:] - 1
        columns = {name: table[name].to_numpy() for name in (*FLAGS, *MEASURED)}
        columns |= {name: self._texts.numbers(table[column]) for name, column in COLUMN.items()}
        final = np.zeros_like(columns["final"])  # text 0 is empty: only a last step has a final observation
        final[last] = columns["final"][last]
        outcome = np.array([OUTCOMES.index(name) for name in table["outcome"].to_pylist()], np.int8)
        iteration = np.full(len(outcome), _iteration(path), np.int64)
        return columns | {"final": final, "outcome": outcome, "iteration": iteration}

    def _join(self, pieces: dict[Path, _Piece]) -> None:
        """Put the columns of all files behind one another; the pieces keep views of them."""
        self._pieces = pieces
        each = list(pieces.values())
        self._starts = np.cumsum([0, *(len(piece.columns["step"]) for piece in each)])
        self._columns = {}
        for name in each[0].columns if each else ():
            whole = self._columns[name] = np.concatenate([piece.columns[name] for piece in each])
            for number, piece in enumerate(each):
                piece.columns[name] = whole[self._starts[number] : self._starts[number + 1]]

    def _holds(self, term: Term, rows: np.ndarray) -> np.ndarray:
        """For each of these rows, whether the condition of a term is met, "-" aside."""
        if len(rows) == 0:
            return np.zeros(0, bool)
        if _in_texts(term):
            numbers = [self._columns[name][rows] for name in _fields(term)]
            known = self._texts.having(str(term.value), numbers, whole=term.operator == "=")
            return np.logical_or.reduce([known[own] for own in numbers])
        if term.field == "run":
            wanted = str(term.value).casefold()
            same = np.array(
                [self.runs[piece.run].run_id.casefold() == wanted for piece in self._pieces.values()]
            )
            return same[self._piece_of(rows)]
        column = self._columns[term.field][rows]
        if term.field == "outcome":
            return column == OUTCOMES.index(term.value)
        compare = {":": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
        return compare[term.operator](column, term.value)

    def _piece_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._starts, rows, "right") - 1

    def _hit(self, query: Query, piece: _Piece, number: int, whole_row: int) -> Hit:
        row = whole_row - int(self._starts[number])
        text = {name: self._texts.texts[piece.columns[name][row]] for name in TEXTS}
        field, (first, end) = "action", (0, 0)
        for term in query.terms:
            if _in_texts(term) and not term.excluded:
                wanted, whole = str(term.value), term.operator == "="
                field = next(name for name in _fields(term) if is_in(text[name], wanted, whole=whole))
                first, end = match_span(text[field], wanted)
                break
        at = max(0, min(first - BEFORE, len(text[field]) - SNIPPET))
        snippet = text[field][at : at + SNIPPET]
        return Hit(
            run=self.runs[piece.run].run_id,
            iteration=piece.iteration,
            task=text["task"],
            sibling=int(piece.columns["sibling"][row]),
            step=int(piece.columns["step"][row]),
            row=row,
            field=field,
            snippet=snippet,
            start=first - at,
            end=min(end - at, len(snippet)),
            at=at,
            length=len(text[field]),
        )


def _in_texts(term: Term) -> bool:
    return term.field is None or term.field in TEXTS


def _cost(term: Term) -> tuple[bool, bool, int]:
    """What terms are sorted by: numbers are quick, and long words, which are rare, leave few rows."""
    return _in_texts(term), term.excluded, -len(str(term.value))


def _fields(term: Term) -> tuple[str, ...]:
    """The texts that a term is about."""
    return TEXTS if term.field is None else (term.field,)


def _files(run: Run) -> list[Path]:
    """What looks like steps files in a run's folder, by name."""
    try:
        return sorted((run.path / "steps").glob("*.parquet"))
    except OSError:
        return []


def _mark(path: Path) -> tuple[int, ...]:
    """What changes when a file is replaced."""
    try:
        facts = path.stat()
    except OSError:
        return ()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino, stat.S_IFMT(facts.st_mode)


def _iteration(path: Path) -> int:
    """The iteration whose steps a regular file holds, by its name."""
    mark, stem = _mark(path), path.stem
    if mark and mark[-1] != stat.S_IFREG:
        raise ValueError(f"{path}: not a regular file")
    if not (stem.isascii() and stem.isdigit() and stem == f"{int(stem):06d}"):
        raise ValueError(f"{path}: its name is not an iteration's; expected six digits or more")
    return int(stem)
