"""Distinct texts by number, and where in a text a word stands, case aside."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa


class Texts:
    """Distinct texts by number, and each as it is compared: case-folded. Number 0 is the empty one."""

    def __init__(self) -> None:
        self.texts = [""]
        self._folded = [""]
        self._number = {"": 0}

    def numbers(self, column: pa.ChunkedArray) -> np.ndarray:
        """(S,) int32, the numbers of the texts of a dictionary-encoded column."""
        column = column.unify_dictionaries()
        known = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
        numbers = np.array([self._add(text) for text in known], np.int32)
        return np.concatenate([numbers[chunk.indices.to_numpy()] for chunk in column.chunks])

    def _add(self, text: str) -> int:
        number = self._number.setdefault(text, len(self.texts))
        if number == len(self.texts):
            folded = text.casefold()
            self.texts.append(text)
            self._folded.append(text if folded == text else folded)  # one object where they are equal
        return number

    def having(self, wanted: str, numbers: Sequence[np.ndarray], *, whole: bool) -> np.ndarray:
        """(texts,) bool, where `wanted` occurs, case aside, or is the whole text; False for texts whose
        number is not among `numbers`."""
        asked, folded, part = np.zeros(len(self.texts), bool), self._folded, wanted.casefold()
        for own in numbers:
            asked[own] = True
        places = np.flatnonzero(asked)
        looked_in = (folded[i] for i in places.tolist())
        found = (part == text for text in looked_in) if whole else (part in text for text in looked_in)
        asked[places] = np.fromiter(found, bool, len(places))
        return asked


def is_in(text: str, wanted: str, *, whole: bool) -> bool:
    """Whether `wanted` occurs in a text, case aside, or is the whole of it."""
    text, wanted = text.casefold(), wanted.casefold()
    return wanted == text if whole else wanted in text


def match_span(text: str, wanted: str) -> tuple[int, int]:
    """The characters of `text` in which `wanted` is found first, case aside; (0, 0) where it is not.

    A character can fold to several ("ß" to "ss"): one that is matched in part counts as a whole.
    """
    folded, part = text.casefold(), wanted.casefold()
    first = folded.find(part)
    if first < 0 or not part:
        return 0, 0
    if len(folded) == len(text):
        return first, first + len(part)
    ends = list(accumulate(len(character.casefold()) for character in text))
    return bisect_right(ends, first), bisect_right(ends, first + len(part) - 1) + 1
