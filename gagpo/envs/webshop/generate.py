"""A catalogue made from a seed, in the format of WebShop's own files, rich enough that search matters.

Products come in families: a product and variants of it that share kind and brand but differ in an
attribute, in the options on offer or in the price, so that only a look at the page tells which one
was asked for.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from string import capwords

from gagpo.envs.webshop.lexicon import (
    ATTRIBUTE_SENTENCES,
    BRANDS,
    DESCRIPTIONS,
    KINDS,
    OPTIONS,
    PLAIN_SENTENCES,
    REQUESTS,
    Kind,
)

FAMILY = 3  # products that resemble each other
REQUEST_SHARE = 0.3  # share of products that someone asks for
ALPHABET = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class _Draft:
    """A product as its maker sees it; `options` holds (name, values on offer)."""

    kind: Kind
    brand: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    price: float


def generate(num_products: int, seed: int) -> tuple[list[dict], dict[str, dict], dict[str, list[dict]]]:
    """(products, attributes by asin, requests by asin): the contents of WebShop's three files.

    `items_shuffle*.json`, `items_ins_v2*.json` and `items_human_ins.json`, in this order.
    """
    rng = random.Random(f"catalogue/{seed}")
    products, attributes, requests = [], {}, {}
    draft = _draw(rng)
    for number, asin in enumerate(_asins(num_products, rng)):
        draft = _variant(draft, rng) if number % FAMILY else _draw(rng)
        products.append(_product(asin, draft, rng))
        attributes[asin] = _described(draft, rng)
        if rng.random() < REQUEST_SHARE:
            requests[asin] = [_request(draft, rng)]
    rng.shuffle(products)
    return products, attributes, requests


def write_catalogue(folder: Path, num_products: int, seed: int) -> None:
    """Write the three files into `folder`, named as WebShop names its small set."""
    folder.mkdir(parents=True, exist_ok=True)
    products, attributes, requests = generate(num_products, seed)
    for name, content in (
        (f"items_shuffle_{num_products}.json", products),
        (f"items_ins_v2_{num_products}.json", attributes),
        ("items_human_ins.json", requests),
    ):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), "utf-8")


def _asins(num: int, rng: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < num:
        found["B0" + "".join(rng.choices(ALPHABET, k=8))] = None
    return list(found)


def _draw(rng: random.Random) -> _Draft:
    kind = rng.choice(KINDS)
    low, high = kind.price
    attributes = tuple(rng.sample(kind.attributes, rng.randint(3, 5)))
    return _Draft(
        kind, rng.choice(BRANDS), attributes, _on_offer(kind, rng), low * (high / low) ** rng.random()
    )


def _variant(draft: _Draft, rng: random.Random) -> _Draft:
    """Another product of the family: one attribute exchanged, other options, another price."""
    kept = rng.sample(draft.attributes, len(draft.attributes) - 1)
    others = [attribute for attribute in draft.kind.attributes if attribute not in draft.attributes]
    attributes = (*kept, rng.choice(others))
    price = draft.price * rng.uniform(0.7, 1.6)
    return _Draft(draft.kind, draft.brand, attributes, _on_offer(draft.kind, rng), price)


def _on_offer(kind: Kind, rng: random.Random) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Of each option of the kind two to six values, in their usual order."""
    offer = []
    for name, values in (OPTIONS[key] for key in kind.options):
        chosen = sorted(rng.sample(range(len(values)), min(len(values), rng.randint(2, 6))))
        offer.append((name, tuple(values[i] for i in chosen)))
    return tuple(offer)


def _product(asin: str, draft: _Draft, rng: random.Random) -> dict:
    """One of `items_shuffle*.json`. Its title names two attributes; its pages name the others."""
    kind, attributes = draft.kind, draft.attributes
    title = f"{draft.brand} {capwords(attributes[0])} {capwords(kind.noun)} - {capwords(attributes[1])}"
    bullets = [
        rng.choice(ATTRIBUTE_SENTENCES).format(attribute=attribute, Attribute=attribute.capitalize())
        for attribute in attributes[1:]
    ]
    description = rng.choice(DESCRIPTIONS).format(brand=draft.brand, noun=kind.noun, first=attributes[0])
    return {
        "name": title,
        "asin": asin,
        "category": kind.category,
        "query": kind.query,
        "product_category": kind.path,
        "full_description": description,
        "small_description": [*bullets, rng.choice(PLAIN_SENTENCES)],
        "pricing": _pricing(draft.price, rng),
        "customization_options": {
            name: [{"value": value, "image": None} for value in values] for name, values in draft.options
        },
        "images": [f"{asin}.jpg"],
        "brand": draft.brand,
    }


def _pricing(price: float, rng: random.Random) -> str:
    """As the original's files write it: mostly one price, a range in one of five, seldom none."""
    chance = rng.random()
    if chance < 0.02:
        return ""
    low = int(price) + 0.99
    return f"${low:.2f}" if chance < 0.8 else f"${low:.2f} to ${low * rng.uniform(1.1, 1.5):.2f}"


def _described(draft: _Draft, rng: random.Random) -> dict:
    """One of `items_ins_v2*.json`: attributes, and an instruction as the synthetic ones are built."""
    attributes = sorted(draft.attributes)
    wanted = rng.sample(attributes, rng.randint(1, 2))
    text = f"Find me {', '.join(wanted)} {draft.kind.query}"
    return {"attributes": attributes, "instruction": text, "instruction_attributes": wanted}


def _request(draft: _Draft, rng: random.Random) -> dict:
    """One of `items_human_ins.json`: a kind, one to three attributes, one or all of the options."""
    wanted = rng.sample(draft.attributes, rng.randint(1, 3))
    offer = draft.options if rng.random() < 0.6 else [rng.choice(draft.options)]
    chosen = {name: rng.choice(values) for name, values in offer}
    rest = "".join(f" and {attribute}" for attribute in wanted[1:])
    choices = "".join(f", {value} {name.removesuffix(' name')}" for name, value in chosen.items())
    text = rng.choice(REQUESTS).format(first=wanted[0], noun=draft.kind.noun, rest=rest, choices=choices)
    return {
        "instruction": f"{text}.",
        "instruction_attributes": wanted,
        "instruction_options": list(chosen.values()),
    }
