"""The products of a shop: read from WebShop's own files, or generated, and parsed when they are looked at.

The full set of 1.18 million products is 5 GB of JSON. It is read once, in pieces, to find where
each product lies; after that a product is cut out of the memory-mapped file when it is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_ASIN = 10
NO_ATTRIBUTES = ("DUMMY_ATTR",)
NO_PRICE = (100.0,)


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the pages show it. `prices` is one price in dollars, or the ends of a range."""

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    category: str
    query: str
    product_category: str
    prices: tuple[float, ...]
    price_tag: str
    options: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]

    def document(self) -> str:
        """What the search engine reads of it."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return " ".join([self.title, self.description, first, options]).lower()


class Catalogue:
    """Products by asin, in the order of their file.

    `load(i)` gives the i-th product; `prices[i]` are its prices. Products without an asin, with a
    too long one and repeated ones are no part of it, as in the original; `skipped` counts them.
    """

    def __init__(
        self,
        asins: Sequence[str],
        prices: Sequence[tuple[float, ...]],
        load: Callable[[int], Product],
        skipped: Mapping[str, int],
    ) -> None:
        self.asins, self.prices, self.skipped = asins, prices, skipped
        self._load = load
        self._places = {asin: place for place, asin in enumerate(asins)}

    def __len__(self) -> int:
        return len(self.asins)

    def __contains__(self, asin: object) -> bool:
        return asin in self._places

    def __iter__(self) -> Iterator[Product]:
        return (self._load(place) for place in range(len(self)))

    def product(self, asin: str) -> Product:
        """The product of this asin; KeyError where there is none."""
        return self._load(self._places[asin])


def from_records(records: Sequence[Any], attributes: Mapping[str, Any], where: str) -> Catalogue:
    """A catalogue in memory. `records` are as in `items_shuffle*.json`; `where` names their source."""
    products: dict[str, Product] = {}
    sieve = Sieve()
    for number, record in enumerate(records):
        if sieve.keeps(asin_of(record, f"{where}: product {number}")):
            product = parse_product(record, attributes, f"{where}: product {number}")
            products[product.asin] = product
    listed = list(products.values())
    return Catalogue(list(products), [p.prices for p in listed], listed.__getitem__, sieve.skipped)


class Sieve:
    """Which products count: those with an asin of at most ten characters that was not met before."""

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        self._met: set[str] = set()

    def keeps(self, asin: str) -> bool:
        reason = None
        if asin == "nan":
            reason = "products without asin"
        elif len(asin) > MAX_ASIN:
            reason = f"asins of more than {MAX_ASIN} characters"
        elif asin in self._met:
            reason = "repeated asins"
        if reason is not None:
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            return False
        self._met.add(asin)
        return True


def asin_of(record: Any, where: str) -> str:
    """The asin of a product record; ValueError where it has none."""
    if not isinstance(record, dict):
        raise ValueError(f"{where}: {_short(record)}; expected an object with the fields of a product")
    return _field(record, "asin", str, where)


def parse_product(record: dict[str, Any], attributes: Mapping[str, Any], where: str) -> Product:
    """A product from its record in `items_shuffle*.json` and the attributes of all asins.

    ValueError names `where`, the asin, the field, what came and what was expected.
    """
    asin = asin_of(record, where)
    where = f"{where} ({asin})"
    texts = {key: _field(record, key, str, where) for key in TEXTS}
    bullets = _field(record, "small_description", (str, list), where)
    bullets = tuple([bullets] if isinstance(bullets, str) else _texts(bullets, "small_description", where))
    prices, tag = parse_prices(record, where)
    return Product(
        asin=asin,
        title=texts["name"],
        description=texts["full_description"],
        bullets=bullets,
        category=texts["category"],
        query=texts["query"].lower().strip(),
        product_category=texts["product_category"],
        prices=prices,
        price_tag=tag,
        options=_options(record, where),
        attributes=_attributes(attributes.get(asin), where),
    )


TEXTS = ("name", "full_description", "category", "query", "product_category")


def parse_prices(record: dict[str, Any], where: str) -> tuple[tuple[float, ...], str]:
    """(one price or the two ends of a range, the tag that the page shows); $100 where none is given."""
    pricing = record.get("pricing")
    if not pricing:
        return NO_PRICE, f"${NO_PRICE[0]}"
    try:
        found = [float(Decimal(re.sub(r"[^\d.]", "", part))) for part in pricing.split("$")[1:]][:2]
    except (AttributeError, InvalidOperation):
        found = []
    if not found:
        raise ValueError(f"{where}: pricing: {_short(pricing)}; expected like '$12.99' or '$5.00 to $9.50'")
    return tuple(found), " to ".join(f"${price}" for price in found)


def _options(record: dict[str, Any], where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, values), in lower case, as the page offers them; of equal names the last counts."""
    given = record.get("customization_options") or {}
    if not isinstance(given, dict):
        raise ValueError(f"{where}: customization_options: {_short(given)}; expected an object")
    options = {}
    for name, contents in given.items():
        if contents is None:
            continue
        if not isinstance(contents, list):
            raise ValueError(f"{where}: customization_options: {name}: {_short(contents)}; expected a list")
        values = []
        for content in contents:
            if not (isinstance(content, dict) and isinstance(content.get("value"), str)):
                raise ValueError(
                    f"{where}: customization_options: {name}: {_short(content)}; expected an object with a "
                    "text 'value'"
                )
            values.append(content["value"].strip().replace("/", " | ").lower())
        options[name.lower()] = tuple(values)
    return tuple(options.items())


def _attributes(entry: Any, where: str) -> tuple[str, ...]:
    if entry is None:
        return NO_ATTRIBUTES
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: its entry in items_ins_v2: {_short(entry)}; expected an object")
    if "attributes" not in entry:
        return NO_ATTRIBUTES
    return _texts(entry["attributes"], "attributes", where)


def _field(record: dict[str, Any], key: str, kind: Any, where: str) -> Any:
    if not isinstance(record.get(key), kind):
        came = _short(record[key]) if key in record else "missing"
        wanted = "a text" if kind is str else "a text or a list of texts"
        raise ValueError(f"{where}: {key}: {came}; expected {wanted}")
    return record[key]


def _texts(items: Any, key: str, where: str) -> tuple[str, ...]:
    if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
        raise ValueError(f"{where}: {key}: {_short(items)}; expected a list of texts")
    return tuple(items)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
