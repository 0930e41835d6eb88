"""The score of a purchase, worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gagpo.envs.webshop.catalogue import Product, from_records
from gagpo.envs.webshop.goals import NO_LIMIT, combinations, draw_limit, draw_prices, human_goals
from gagpo.envs.webshop.nouns import plain_nouns
from gagpo.envs.webshop.reward import Goal, score, similarity

KETTLE = Product(
    asin="B0KETTLE01",
    title="Harrow Steel Kettle - Fast Boil",
    description="A kettle with a cool handle.",
    bullets=("Boils a litre in two minutes.", "No plastic inside"),
    category="garden",
    query="kettles",
    product_category="Home › Kitchen › Kettles",
    prices=(24.99,),
    price_tag="$24.99",
    options=(("color", ("navy blue", "red")), ("size", ("large", "small"))),
    attributes=("fast boil", "stainless steel"),
)
GOAL = Goal(
    asin="B0KETTLE01",
    instruction="i need a fast boil kettle",
    attributes=("fast boil", "cool handle"),
    options=("blue", "large"),
    price_upper=30.0,
    category="garden",
    query="kettles",
    product_category="Home › Kitchen › Kettles",
    title="Harrow Steel Kettle - Fast Boil",
)


def bought(chosen: tuple[str, ...], price: float = 24.99, product: Product = KETTLE, goal: Goal = GOAL):
    return score(product, goal, price, chosen, plain_nouns)


def test_all_that_was_wanted_is_worth_one() -> None:
    # 2 attributes (one of them found in the description), 2 options, the price: 5 of 5
    full = bought(("navy blue", "large"))
    assert full.total == 1.0 and full.r_type == full.r_attributes == full.r_options == full.r_price == 1.0


@pytest.mark.parametrize(
    ("chosen", "price", "num"),
    [
        ((), 24.99, 3),  # both attributes and the price
        (("red",), 24.99, 3),
        (("navy blue",), 24.99, 4),  # "blue" and "navy blue" are one color: the first of the list found
        (("navy blue", "small"), 24.99, 4),
        (("navy blue", "large"), 30.0, 5),  # the limit itself is not too much
        (("navy blue", "large"), 30.01, 4),
    ],
)
def test_each_part_counts_for_a_fifth(chosen: tuple[str, ...], price: float, num: int) -> None:
    assert bought(chosen, price).total == num / 5


def test_the_type_depends_on_query_category_and_nouns() -> None:
    def r_type(**changes: str) -> float:
        return bought((), product=replace(KETTLE, **changes)).r_type

    other = {"query": "pots", "product_category": "Home › Pots"}
    # five nouns are wanted: harrow, steel, kettle, fast, boil
    assert r_type(**other, title="Kettle") == 0.5  # 1/5 is not above 0.2
    assert r_type(**other, title="Steel Kettle") == 1.0
    assert r_type(**other, title="Pot") == 0.0
    assert r_type(title="Pot") == 0.0  # even where query and category agree
    assert r_type(query="pots", product_category="Home › Kitchen", title="Kettle") == 1.0
    assert r_type(query="pots", product_category="Home › Garden", title="Kettle") == 0.5


def test_a_title_score_below_a_tenth_is_nearly_nothing() -> None:
    goal = replace(GOAL, title=" ".join("abcdefghijk"))
    product = replace(KETTLE, title="a")
    nouns = str.split
    assert score(product, goal, 1.0, (), nouns).title_score == 1 / 11
    assert score(product, goal, 1.0, (), nouns).r_type == 0.1
    # nouns that repeat count once above and twice below the line
    twice = replace(GOAL, title="a a b b")
    assert score(product, twice, 1.0, (), nouns).title_score == 1 / 4
    nameless = replace(GOAL, title="")
    assert score(product, nameless, 1.0, (), nouns).title_score == 0.2


def test_similarity_is_a_rounded_share_of_tokens() -> None:
    assert similarity("Fast-Boil!", "fast boil") == 100
    assert similarity("fast boil", "boil fast kettle") == 100  # one holds all tokens of the other
    assert similarity("red", "blue") < 50
    assert similarity(("size", "large"), "large") == 100
    # "litre 1" and "litre 2" share six of seven characters: the original takes one for the other
    assert similarity("1 litre", "2 litre") == 86
    assert similarity("größe", "gre") == similarity("gre", "gre")  # as thefuzz drops ö and ß


def test_a_pair_is_a_color_only_where_it_equals_one() -> None:
    """As the original has it: synthetic goals hold (name, value) pairs, and `in` compares their parts."""
    goal = replace(GOAL, options=(("flavor", "blueberry"),))
    assert bought(("blueberry",), goal=goal).r_options == 0.0  # "blue" against "flavor blueberry"
    goal = replace(GOAL, options=(("color", "blue"),))
    assert bought(("sky blue",), goal=goal).r_options == 1.0


def test_limits_are_the_larger_of_two_of_the_next_four_tens() -> None:
    limits = {draw_limit(24.99, random.Random(i))[0] for i in range(200)}
    assert limits == {40.0, 50.0, 60.0}  # of 30, 40, 50, 60
    assert draw_limit(24.99, random.Random(1))[1].startswith(", and price lower than ")
    assert {draw_limit(975.5, random.Random(i))[0] for i in range(20)} == {990.0}
    assert draw_limit(985.0, random.Random(0)) == (NO_LIMIT, "")


def test_goals_follow_the_seed_and_prices_lie_in_their_ranges() -> None:
    record = {
        "asin": "B1", "name": "Kettle", "category": "garden", "query": "kettles", "product_category": "Home",
        "full_description": "", "small_description": [], "pricing": "$10.00 to $20.00",
        "customization_options": {}, "images": [],
    }  # fmt: skip
    catalogue = from_records([record, {**record, "asin": "B2", "pricing": ""}], {}, "test")
    prices = [draw_prices(catalogue, random.Random(seed)) for seed in range(20)]
    assert all(10 <= drawn["B1"] <= 20 and drawn["B2"] == 100.0 for drawn in prices)
    assert len({drawn["B1"] for drawn in prices}) == 20
    request = {"instruction": "a kettle...", "instruction_attributes": ["hot"], "instruction_options": []}
    (goal,), drawn = human_goals(catalogue, {"B2": [request], "unknown": [request]}, "test", 5)
    assert goal.asin == "B2" and goal.instruction.startswith("a kettle, and price lower than 1")
    assert goal == human_goals(catalogue, {"B2": [request]}, "test", 5)[0][0]
    assert drawn["B1"] == random.Random(5).uniform(10, 20)


def test_every_combination_of_options_is_a_synthetic_goal() -> None:
    assert list(combinations(KETTLE)) == [
        (("color", color), ("size", size)) for color in ("navy blue", "red") for size in ("large", "small")
    ]
