"""Clusters of texts that are nearly equal, the same ones in whatever order the texts come.

Texts are compared as sequences of lower-case tokens: words, numbers, and single signs. With n and
m tokens and the Levenshtein distance d between them (insert, delete or replace one token),

    similarity = 1 - d / max(n, m),    1 where neither has a token

Two texts are *linked* where their similarity is at least the threshold, and a cluster is a
connected component of the links: the finest partition that never parts what is linked. It is
unique, hence no order of rows can change it. Its price is chains: the ends of one may have little
in common. A higher threshold makes a partition that refines that of a lower one; at 1, texts are
together that have the same tokens; at 0, all are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

BLOCK_ROWS = 256  # of the matrix of shared tokens that is held at once
BLOCK_CELLS = 2**20  # of the distances that are computed side by side
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tokens(text: str) -> tuple[str, ...]:
    """What texts are compared by."""
    return tuple(_TOKEN.findall(text.lower()))


def cluster_names(texts: Iterable[str], threshold: float) -> dict[str, str]:
    """{text: the smallest text of its cluster}.

    With U distinct token sequences of up to L tokens, F being the tokens that any two share: one
    product of a U x F matrix with itself, and for each pair that it leaves open, and whose clusters
    are still apart, at most L^2 steps of Levenshtein's table. The worst case, U^2 L^2, takes texts
    of nearly the same tokens in other orders.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold: {threshold!r}; expected between 0 and 1")
    members: dict[tuple[str, ...], list[str]] = {}
    for text in sorted(set(texts)):
        members.setdefault(tokens(text), []).append(text)
    if not members:
        return {}
    sequences = sorted(members, key=len)  # alike in length, side by side: little padding below
    root = _components(sequences, threshold)
    smallest: dict[int, str] = {}
    for row, sequence in enumerate(sequences):
        name = members[sequence][0]
        smallest[root[row]] = min(name, smallest.get(root[row], name))
    return {text: smallest[root[row]] for row, s in enumerate(sequences) for text in members[s]}


def _components(sequences: Sequence[tuple[str, ...]], threshold: float) -> list[int]:
    """For each token sequence, the lowest row of its cluster."""
    codes: dict[str, int] = {}
    ids = [np.array([codes.setdefault(t, len(codes)) for t in s], np.int32) for s in sequences]
    length = np.array([len(s) for s in ids])
    padded = np.full((len(ids), max(1, int(length.max()))), -1, np.int32)
    for row, own in enumerate(ids):
        padded[row, : len(own)] = own
    root = np.arange(len(ids))
    for first, second in _candidates(ids, length, threshold):
        size = max(1, BLOCK_CELLS // padded.shape[1])
        for start in range(0, len(first), size):
            a, b = first[start : start + size], second[start : start + size]
            apart = root[a] != root[b]  # the others are in one cluster, linked or not
            a, b = a[apart], b[apart]
            near = _linked(padded, length, a, b, threshold)
            _join(root, a[near], b[near])
    return root.tolist()


def _reaches(longest: np.ndarray, distance: np.ndarray, threshold: float) -> np.ndarray:
    """Where 1 - distance / longest >= threshold, as one correctly rounded division."""
    return (longest - distance) / np.maximum(longest, 1) >= np.where(longest > 0, threshold, 0)


def _candidates(
    ids: Sequence[np.ndarray], length: np.ndarray, threshold: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows that can be linked, as two columns, a block at a time; each pair once.

    A sequence becomes another of which it shares k tokens, repeats counted, by max(n, m) - k edits
    at the least. The k-th occurrence of a token is a feature of its own, so that k is a product.
    """
    features: dict[tuple[int, int], list[int]] = {}
    for row, own in enumerate(ids):
        seen: dict[int, int] = {}
        for token in own.tolist():
            seen[token] = seen.get(token, 0) + 1
            features.setdefault((token, seen[token]), []).append(row)
    shared = [rows for rows in features.values() if len(rows) > 1]
    has = np.zeros((len(ids), len(shared)), np.float32)
    for column, rows in enumerate(shared):
        has[rows, column] = 1
    for start in range(0, len(ids), BLOCK_ROWS):
        common = has[start : start + BLOCK_ROWS] @ has[start:].T
        longest = np.maximum(length[start : start + BLOCK_ROWS, None], length[None, start:])
        first, second = np.nonzero(np.triu(_reaches(longest, longest - common, threshold), 1))
        yield first + start, second + start


def _linked(
    padded: np.ndarray, length: np.ndarray, a: np.ndarray, b: np.ndarray, threshold: float
) -> np.ndarray:
    """Where the sequences in rows `a` and `b` are linked, pair by pair; (P,) bool.

    Row t of Levenshtein's table for all pairs at once. Its least entry never falls from row to row,
    so a pair where that is too large is out.
    """
    longest, linked = np.maximum(length[a], length[b]), np.zeros(len(a), bool)
    columns = np.arange(longest.max(initial=0) + 1, dtype=np.int32)
    live = np.arange(len(a))
    row = np.tile(columns, (len(a), 1))  # from nothing to the first j tokens of b
    for t in range(int(length[a].max(initial=0))):
        new = row + 1
        unequal = padded[a[live], t][:, None] != padded[b[live], : len(columns) - 1]
        np.minimum(new[:, 1:], row[:, :-1] + unequal, out=new[:, 1:])
        new = np.minimum.accumulate(new - columns, axis=1) + columns  # tokens of b that are inserted
        row = np.where((t < length[a[live]])[:, None], new, row)
        hope = _reaches(longest[live], row.min(1), threshold)
        live, row = live[hope], row[hope]
    distance = row[np.arange(len(live)), length[b[live]]]
    linked[live] = _reaches(longest[live], distance, threshold)
    return linked


def _join(root: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Join the clusters of rows `a` and `b`, pair by pair. `root` points to each cluster's lowest row."""
    while np.any(root[a] != root[b]):
        low, high = np.minimum(root[a], root[b]), np.maximum(root[a], root[b])
        np.minimum.at(root, high, low)
        while np.any(root != root[root]):
            root[:] = root[root]
