"""Searches that the words of an instruction suggest: something to choose from where all words are allowed."""

from __future__ import annotations

import re

PRICE_CLAUSE = re.compile(r",? and price lower than [\d.]+ dollars$")
BREAKS = re.compile(r"[,.;:\[\]\n]| with | and | that | in ")
MAX_SEARCHES = 6


def suggested_searches(instruction: str) -> tuple[str, ...]:
    """Search commands, sorted: the instruction without its price limit, and each of its clauses."""
    text = PRICE_CLAUSE.sub("", instruction).lower()
    clauses = [" ".join(clause.split()) for clause in BREAKS.split(text)]
    whole = " ".join(BREAKS.sub(" ", text).split())
    wanted = dict.fromkeys(clause for clause in (whole, *clauses) if clause)
    return tuple(sorted(f"search[{words}]" for words in list(wanted)[:MAX_SEARCHES])) or ("search[a]",)
