"""The arrays of a search index, and how they are made of documents.

What a document adds to a score depends on the query only through the weight w of a term:
w - w / divisor, with divisor = 1 + f / (k1 (1 - b + b length / average)) in float32, one operation
after another as Lucene's BM25Similarity does them. So divisors are what is stored. `length` is the
number of terms, rounded down to one of the 256 that Lucene's SmallFloat.intToByte4 can tell apart;
the average is of exact lengths, over the documents that have a term.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gagpo.envs.webshop.analysis import analyze

K1, B = np.float32(0.9), np.float32(0.4)
NUM_PENDING = 1 << 22  # terms that are gathered before they are sorted
DOC_BITS = 32

Keep = Callable[[np.ndarray], np.ndarray]
Allocate = Callable[[str, int, type], np.ndarray]


@dataclass(frozen=True, slots=True)
class Postings:
    """D documents, T terms, P pairs of a term and a document that has it.

    Documents are numbered in the order of their ids, so that the lower number wins where scores are
    equal; terms in the order of their UTF-8. Strings stand end to end: string i is
    data[offsets[i]:offsets[i + 1]].
    """

    id_offsets: np.ndarray  # (D + 1,) int64
    id_data: np.ndarray  # uint8, UTF-8
    term_offsets: np.ndarray  # (T + 1,) int64
    term_data: np.ndarray  # uint8, UTF-8
    starts: np.ndarray  # (T + 1,) int64: term t owns the pairs starts[t] to starts[t + 1]
    docs: np.ndarray  # (P,) int32
    divisors: np.ndarray  # (P,) float32, greater than 1
    num_counted: int  # documents that have a term


def lengths_of_bytes() -> np.ndarray:
    """The lengths that can be told apart, (256,) int64, ascending.

    0 to 23 are themselves. From there on the excess over 24 keeps its four leading bits.
    """
    excess = np.arange(256 - 24)
    shift = np.maximum(excess // 8 - 1, 0)
    rounded = np.where(excess < 8, excess, (8 + excess % 8) << shift)
    return np.concatenate([np.arange(24), 24 + rounded])


def _divisor_slopes(lengths: np.ndarray, average: np.float32) -> np.ndarray:
    """1 / (k1 (1 - b + b length / average)) for each document: float32, of its rounded length."""
    known = lengths_of_bytes()
    by_byte = np.float32(1) / (K1 * ((np.float32(1) - B) + B * known.astype(np.float32) / average))
    return by_byte[np.searchsorted(known, lengths, side="right") - 1]


def _in_memory(_: str, size: int, dtype: type) -> np.ndarray:
    return np.zeros(size, dtype)


class Builder:
    """Takes documents one by one, and makes the postings of them all.

    Besides the vocabulary, ids and lengths, memory holds NUM_PENDING terms; `keep` may move what has been
    sorted (an array of int64) elsewhere, and `allocate(name, size, dtype)` decides where the results lie.
    """

    def __init__(self, keep: Keep = lambda run: run, allocate: Allocate = _in_memory) -> None:
        self._keep, self._allocate = keep, allocate
        self._ids: list[str] = []
        self._lengths = array("q")
        self._rows: dict[str, int] = {}  # term -> row, in the order in which terms are met
        self._pending = array("q")
        self._num_flushed = 0  # documents
        self._runs: list[np.ndarray] = []

    def add(self, doc_id: str, contents: str) -> None:
        for name, value in (("id", doc_id), ("contents", contents)):
            if not isinstance(value, str):
                raise ValueError(f"{name} of document {len(self._ids)}: {value!r}, expected a string")
        terms = analyze(contents)
        rows = self._rows
        self._ids.append(doc_id)
        self._lengths.append(len(terms))
        self._pending.extend([rows.setdefault(term, len(rows)) for term in terms])
        if len(self._pending) >= NUM_PENDING:
            self._flush()

    def _flush(self) -> None:
        """Sort what is pending, as row << DOC_BITS | document, into a run."""
        lengths = np.array(self._lengths[self._num_flushed :], np.int64)
        docs = np.repeat(np.arange(self._num_flushed, len(self._ids)), lengths)
        keys = (np.array(self._pending, np.int64) << DOC_BITS) | docs
        keys.sort()
        self._runs.append(self._keep(keys))
        self._pending = array("q")
        self._num_flushed = len(self._ids)

    def finish(self) -> Postings:
        """The postings of all documents. Raises ValueError where two have one id."""
        self._flush()
        by_id = sorted(range(len(self._ids)), key=self._ids.__getitem__)
        for one, other in pairwise(by_id):
            if self._ids[one] == self._ids[other]:
                raise ValueError(f"id: {self._ids[one]!r} came twice, expected one document for each id")
        terms = sorted(self._rows)
        row_of = np.zeros(len(terms), np.int64)  # from rows as met to rows in order
        row_of[[self._rows[term] for term in terms]] = np.arange(len(terms))
        number_of = np.zeros(len(by_id), np.int32)
        number_of[by_id] = np.arange(len(by_id))
        starts, docs, divisors = self._pairs(row_of, number_of)
        return Postings(
            *self._strings("id", [self._ids[i] for i in by_id]),
            *self._strings("term", terms),
            starts,
            docs,
            divisors,
            int(np.count_nonzero(np.array(self._lengths))),
        )

    def _strings(self, name: str, values: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encoded = [value.encode() for value in values]
        offsets = self._allocate(f"{name}_offsets", len(values) + 1, np.int64)
        offsets[1:] = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        data = self._allocate(f"{name}_data", int(offsets[-1]), np.uint8)
        data[:] = np.frombuffer(b"".join(encoded), np.uint8)
        return offsets, data

    def _pairs(self, row_of: np.ndarray, number_of: np.ndarray) -> tuple[np.ndarray, ...]:
        """starts, docs and divisors: each run's pairs go behind those of earlier runs."""
        lengths = np.array(self._lengths, np.int64)
        average = np.float32(lengths.sum() / max(np.count_nonzero(lengths), 1))
        slopes = _divisor_slopes(lengths, average) if lengths.any() else np.zeros(len(lengths), np.float32)
        starts = self._allocate("starts", len(row_of) + 1, np.int64)
        for run in self._runs:
            rows = row_of[run[_changes(run)] >> DOC_BITS]
            starts[1:] += np.bincount(rows, minlength=len(row_of))
        np.cumsum(starts, out=starts)
        docs = self._allocate("docs", int(starts[-1]), np.int32)
        divisors = self._allocate("divisors", int(starts[-1]), np.float32)
        free = starts[:-1].copy()
        for run in self._runs:
            first = _changes(run)
            count = np.diff(first, append=len(run)).astype(np.float32)
            keys = run[first]
            rows, source = row_of[keys >> DOC_BITS], keys & ((1 << DOC_BITS) - 1)
            begin = _changes(rows)
            size = np.diff(begin, append=len(rows))
            place = free[rows] + np.arange(len(rows)) - np.repeat(begin, size)
            free[rows[begin]] += size
            docs[place] = number_of[source]
            divisors[place] = np.float32(1) + count * slopes[source]
        return starts, docs, divisors


def _changes(values: np.ndarray) -> np.ndarray:
    """Where a value differs from the one before it, the first included."""
    return np.flatnonzero(np.concatenate([np.ones(len(values[:1]), bool), values[1:] != values[:-1]]))
