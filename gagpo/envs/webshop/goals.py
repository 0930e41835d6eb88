"""What shoppers ask for, and what everything costs: WebShop's goals in WebShop's order.

The original draws prices and price limits from Python's global random state before it seeds it, so
its goals differ from process to process. Here one seed draws them: the goals are those of the
original after `random.seed(seed)`, shuffled as it shuffles them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gagpo.envs.webshop import fields
from gagpo.envs.webshop.catalogue import Catalogue, Product
from gagpo.envs.webshop.reward import Goal

PRICE_LIMITS = tuple(10.0 * i for i in range(1, 100))
NO_LIMIT = 1_000_000
MAX_COMBINATIONS = 100_000  # of one product's options
SHUFFLE_SEED = 233  # the original's


def human_goals(
    catalogue: Catalogue, requests: Mapping[str, Any], where: str, seed: int
) -> tuple[list[Goal], dict[str, float]]:
    """(goals, price in dollars by asin) of what people wrote. `requests` is `items_human_ins.json`."""
    rng = random.Random(seed)
    prices = draw_prices(catalogue, rng)
    goals = [
        _human_goal(catalogue.product(asin), request, prices[asin], rng, f"{where}: {asin}, request {number}")
        for asin in catalogue.asins
        for number, request in enumerate(_requests(requests, asin, where))
    ]
    return _shuffled([goal for goal in goals if goal is not None]), prices


def synthetic_goals(
    catalogue: Catalogue, attributes: Mapping[str, Any], where: str, seed: int
) -> tuple[list[Goal], dict[str, float]]:
    """(goals, price in dollars by asin): each instruction of `items_ins_v2*.json`, once for every
    combination of the product's options."""
    rng = random.Random(seed)
    prices = draw_prices(catalogue, rng)
    goals: list[Goal] = []
    for asin in catalogue.asins:
        here = f"{where}: {asin}"
        entry = fields.mapping(attributes.get(asin) or {}, here, "an object")
        if entry.get("instruction") is None:
            continue
        text = fields.text(entry, "instruction", here)
        wanted = fields.texts(entry, "instruction_attributes", here)
        if not wanted:
            raise ValueError(f"{here}: instruction_attributes: []; expected at least one")
        limit, limit_text = draw_limit(prices[asin], rng)
        product = catalogue.product(asin)
        for pairs in combinations(product):
            options = " with " + ", and ".join(f"{name}: {value}" for name, value in pairs) if pairs else ""
            goals.append(_goal(product, f"{text}{options}{limit_text}", wanted, pairs, limit))
    return _shuffled(goals), prices


def draw_prices(catalogue: Catalogue, rng: random.Random) -> dict[str, float]:
    """What each product costs: a range is drawn from, in the order of the catalogue."""
    return {
        asin: rng.uniform(*prices) if len(prices) == 2 else prices[0]
        for asin, prices in zip(catalogue.asins, catalogue.prices, strict=True)
    }


def draw_limit(price: float, rng: random.Random) -> tuple[float, str]:
    """(the most that a shopper would pay, its clause): one of the next multiples of ten dollars."""
    above = [limit for limit in PRICE_LIMITS if limit > price][:4]
    if len(above) < 2:
        return NO_LIMIT, ""
    limit = max(rng.sample(above, 2))
    return limit, f", and price lower than {limit:.2f} dollars"


def combinations(product: Product) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every choice of one value for each option, as (name, value) pairs; the names in order."""
    options = sorted(product.options)
    num = math.prod(len(values) for _, values in options)
    if num > MAX_COMBINATIONS:
        raise ValueError(
            f"{product.asin}: customization_options: {num} combinations; expected {MAX_COMBINATIONS} at most"
        )
    names = [name for name, _ in options]
    for values in itertools.product(*(values for _, values in options)):
        yield tuple(zip(names, values, strict=True))


def _human_goal(product: Product, request: Any, price: float, rng: random.Random, where: str) -> Goal | None:
    """None for a request without attributes: the original passes over those, drawing no limit."""
    fields.mapping(request, where, "an object with instruction, attributes and options")
    attributes = fields.texts(request, "instruction_attributes", where)
    if not attributes:
        return None
    limit, limit_text = draw_limit(price, rng)
    text = fields.text(request, "instruction", where).strip(".") + limit_text
    return _goal(product, text, attributes, _requested_options(request, where), limit)


def _requested_options(request: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    """A list of values, or an object of names and values as (name, value) pairs."""
    key = "instruction_options"
    given = request.get(key)
    if not isinstance(given, dict):
        return fields.texts(request, key, where)
    values = fields.texts({key: list(given.values())}, key, where)
    return tuple(zip(fields.texts({key: list(given)}, key, where), values, strict=True))


def _goal(
    product: Product, text: str, attributes: tuple[str, ...], options: Sequence[Any], limit: float
) -> Goal:
    return Goal(
        asin=product.asin,
        instruction=text,
        attributes=attributes,
        options=tuple(options),
        price_upper=limit,
        category=product.category,
        query=product.query,
        product_category=product.product_category,
        title=product.title,
    )


def _shuffled(goals: list[Goal]) -> list[Goal]:
    random.Random(SHUFFLE_SEED).shuffle(goals)
    return goals


def _requests(requests: Mapping[str, Any], asin: str, where: str) -> list[Any]:
    found = requests.get(asin, [])
    if not isinstance(found, list):
        raise ValueError(f"{where}: {asin}: {fields.short(found)}; expected a list of requests")
    return found
