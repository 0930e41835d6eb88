"""Full-text search with Lucene's BM25: the scores and the order that Anserini's SimpleSearcher finds.

A term that the query has q times and that n of the N documents have adds to the score of a document

    w - w / divisor,    w = q ln(1 + (N - n + 1/2) / (n + 1/2))

in float32, with the divisors of `postings`. Documents without any term count nowhere. The sum over
terms is taken in float64, where it is exact in practice, and rounded to float32. Equal scores are
ordered by id. (SimpleSearcher then rounds the scores that it reports to four places and sets ties
apart by a millionth; here scores are as Lucene has them.)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from gagpo.envs.webshop import index_files
from gagpo.envs.webshop.analysis import analyze
from gagpo.envs.webshop.postings import Builder, Postings


def build_index(documents: Iterable[tuple[str, str]], folder: Path, *, source: str = "") -> None:
    """Write an index of (id, contents) pairs to `folder`, which appears when it is whole.

    Documents may stream: memory holds their ids, their vocabulary and a few million terms. `source`
    says where they are from, and is kept in the manifest. Raises ValueError where two documents have
    one id, or where `folder` exists.
    """
    with index_files.writing(Path(folder), source) as builder:
        for doc_id, contents in documents:
            builder.add(doc_id, contents)


class _Strings(Sequence[bytes]):
    """Strings that stand end to end in an array."""

    def __init__(self, offsets: np.ndarray, data: np.ndarray) -> None:
        self._offsets, self._data = memoryview(offsets), memoryview(data)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        return bytes(self._data[self._offsets[i] : self._offsets[i + 1]])


class Index:
    """A searchable collection of documents. It never changes, so threads may share it."""

    def __init__(self, postings: Postings) -> None:
        self._ids = _Strings(postings.id_offsets, postings.id_data)
        self._terms = _Strings(postings.term_offsets, postings.term_data)
        self._starts = memoryview(postings.starts)
        self._docs, self._divisors = postings.docs, postings.divisors
        self._num_counted = postings.num_counted
        self._find = lru_cache(maxsize=1 << 14)(self._look_up)  # queries repeat a small vocabulary

    @classmethod
    def in_memory(cls, documents: Iterable[tuple[str, str]]) -> Index:
        """An index of (id, contents) pairs. Raises ValueError where two have one id."""
        builder = Builder()
        for doc_id, contents in documents:
            builder.add(doc_id, contents)
        return cls(builder.finish())

    @classmethod
    def open(cls, folder: Path) -> Index:
        """The index that `build_index` wrote to `folder`, mapped into memory: processes share its pages.

        Reads every file once to compare checksums. Raises ValueError, naming the file, where one is missing
        or not as it was written.
        """
        return cls(index_files.read(Path(folder)))

    def __len__(self) -> int:
        """The number of documents."""
        return len(self._ids)

    def search(self, query: str, k: int = 50) -> list[tuple[str, float]]:
        """The ids and scores of the k best documents, best first; only those that have a term of the query.

        Scores are float32 values. Raises ValueError for k < 1.
        """
        if k < 1:
            raise ValueError(f"k: {k}, expected at least 1")
        docs, parts = [], []
        for term, count in Counter(analyze(query)).items():
            start, end, idf = self._find(term)
            if end > start:
                weight = np.float32(count) * idf
                docs.append(self._docs[start:end])
                parts.append(weight - weight / self._divisors[start:end])
        if not docs:
            return []
        total = np.bincount(np.concatenate(docs), np.concatenate(parts), len(self))
        found = np.flatnonzero(total > 0)
        scores = total[found].astype(np.float32)
        if len(found) > k:
            best = scores >= np.partition(scores, -k)[-k]
            found, scores = found[best], scores[best]
        order = np.argsort(-scores, kind="stable")[:k]
        pairs = zip(found[order].tolist(), scores[order].tolist(), strict=True)
        return [(self._ids[number].decode(), score) for number, score in pairs]

    def _look_up(self, term: str) -> tuple[int, int, np.float32]:
        """Where the pairs of a term start and end, and its rarity; (0, 0, 0) where no document has it."""
        wanted = term.encode()
        row = bisect_left(self._terms, wanted)
        if row == len(self._terms) or self._terms[row] != wanted:
            return 0, 0, np.float32(0)
        start, end = self._starts[row], self._starts[row + 1]
        num_docs = end - start
        return start, end, np.float32(math.log(1 + (self._num_counted - num_docs + 0.5) / (num_docs + 0.5)))
