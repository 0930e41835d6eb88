"""Our shop beside the original: what `tests/record_webshop.py` recorded of it, step by step."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from webshop_replay import open_shop, replay

from gagpo.envs.webshop.nouns import plain_nouns
from gagpo.envs.webshop.reward import Goal
from gagpo.envs.webshop.shop import Shop

GOLDEN = Path(__file__).parent / "data" / "webshop_golden.json.xz"
KINDS = ("human", "synthetic")


@cache
def golden() -> dict[str, Any]:
    return json.loads(lzma.decompress(GOLDEN.read_bytes()))


@cache
def shop(kind: str, mode: str) -> Shop:
    record = golden()
    return open_shop(record, record["seed"], kind == "human", mode, record["nouns"])


@pytest.mark.parametrize("kind", KINDS)
def test_prices_and_goals_are_the_originals_in_its_order(kind: str) -> None:
    ours, recorded = shop(kind, "text"), golden()[kind]
    assert ours.prices == recorded["prices"]
    # No options are an empty list or an empty object there; to the reward they are one.
    theirs = [{**goal, "goal_options": goal["goal_options"] or {}} for goal in recorded["goals"]]
    assert [as_recorded(goal) for goal in ours.goals] == theirs


def as_recorded(goal: Goal) -> dict[str, Any]:
    pairs = all(isinstance(option, tuple) for option in goal.options)
    options: Any = dict(goal.options) if pairs else list(goal.options)
    return {
        "asin": goal.asin,
        "instruction_text": goal.instruction,
        "attributes": list(goal.attributes),
        "price_upper": goal.price_upper,
        "goal_options": options,
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["text", "text_rich"])
def test_every_recorded_step_is_answered_word_for_word(kind: str, mode: str) -> None:
    ours = shop(kind, mode)
    for number, episode in enumerate(golden()[kind]["episodes"]):
        if episode["mode"] == mode:
            replay(ours, episode, f"{kind} {mode} {number}")


def test_the_plain_rule_for_nouns_comes_near_the_tagger() -> None:
    """On pairs of titles: how often both give one r_type, for products of one kind and of two."""
    tagged = golden()["nouns"]
    queries = {product["name"]: product["query"] for product in golden()["products"]}
    titles, rng = sorted(tagged), random.Random(0)
    same: dict[bool, list[bool]] = {True: [], False: []}
    for one, two in (rng.sample(titles, 2) for _ in range(20_000)):
        match = queries[one] == queries[two]
        ours = r_type(plain_nouns(one), plain_nouns(two), match)
        same[match].append(ours == r_type(tagged[one], tagged[two], match))
    assert sum(same[True]) / len(same[True]) > 0.99 and sum(same[False]) / len(same[False]) > 0.95


def r_type(wanted: Sequence[str], found: Sequence[str], match: bool) -> float:
    share = len(set(wanted) & set(found)) / len(wanted) if wanted else 0.2
    if share < 0.1:
        return 0.1 if share else 0.0
    return 1.0 if match or share > 0.2 else 0.5


def test_the_record_holds_what_is_worth_comparing() -> None:
    for kind in KINDS:
        episodes = golden()[kind]["episodes"]
        steps = [step for episode in episodes for step in episode["steps"]]
        scores = {step["reward"] for step in steps if step["done"]}
        assert len(steps) > 1000 and len(scores) >= 5 and 1.0 in scores
        text = "".join(step.get("observation", "") for step in steps)
        assert "[clicked button]" in text and "You have clicked" in text
