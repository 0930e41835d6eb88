"""From a text to the terms that are indexed and searched: Anserini's DefaultEnglishAnalyzer.

Words are cut by `wordbreak`, lose a possessive 's, are put in lower case, dropped when they are
stop words, and stemmed. Equal to Lucene 9.5 in Anserini 0.22.1, which WebShop's search runs on.
"""

from __future__ import annotations

from functools import lru_cache

from gagpo.envs.webshop.porter import stem
from gagpo.envs.webshop.wordbreak import words

STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if"),
        *("in", "into", "is", "it", "no", "not", "of", "on", "or", "such", "that"),
        *("the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
APOSTROPHES = "'\u2019\uff07"


def analyze(text: str) -> list[str]:
    """The terms of a text, in order and repeated as they come."""
    return [term for term in map(_term, words(text)) if term]


@lru_cache(maxsize=1 << 18)
def _term(word: str) -> str:
    """The term of a word; "" for a stop word."""
    if len(word) > 1 and word[-2] in APOSTROPHES and word[-1] in "sS":
        word = word[:-2]
    # Java lowers each character alone: no special case for a sigma at the end, and one letter for İ.
    word = word.replace("\u0130", "i").replace("\u03a3", "\u03c3").lower()
    return "" if word in STOP_WORDS else stem(word)
