"""The products of a shop: read from WebShop's own files, or generated, and parsed when they are looked at.

The full set of 1.18 million products is 5 GB of JSON. It is read once, in pieces, to find where
each product lies; after that a product is cut out of the memory-mapped file when it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagpo.envs.webshop import fields

MAX_ASIN = 10
NO_ATTRIBUTES = ("DUMMY_ATTR",)
NO_PRICE = (100.0,)
PRICE = re.compile(r"\d{1,9}(\.\d*)?|\.\d+", re.ASCII)


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
    return fields.text(fields.mapping(record, where, "an object with the fields of a product"), "asin", where)


def parse_product(record: dict[str, Any], attributes: Mapping[str, Any], where: str) -> Product:
    """A product from its record in `items_shuffle*.json` and the attributes of all asins.

    ValueError names `where`, the asin, the field, what came and what was expected.
    """
    asin = asin_of(record, where)
    where = f"{where} ({asin})"
    bullets = "small_description"
    one = isinstance(record.get(bullets), str)
    prices, tag = parse_prices(record, where)
    return Product(
        asin=asin,
        title=fields.text(record, "name", where),
        description=fields.text(record, "full_description", where),
        bullets=(fields.text(record, bullets, where),) if one else fields.texts(record, bullets, where),
        category=fields.text(record, "category", where),
        query=fields.text(record, "query", where).lower().strip(),
        product_category=fields.text(record, "product_category", where),
        prices=prices,
        price_tag=tag,
        options=_options(record, where),
        attributes=_attributes(attributes.get(asin), where),
    )


def parse_prices(record: Mapping[str, Any], where: str) -> tuple[tuple[float, ...], str]:
    """(one price or the two ends of a range, the tag that the page shows); $100 where none is given."""
    if not record.get("pricing"):
        return NO_PRICE, f"${NO_PRICE[0]}"
    pricing = fields.text(record, "pricing", where)
    digits = [re.sub(r"[^0-9.]", "", part) for part in pricing.split("$")[1:]][:2]
    if not digits or not all(PRICE.fullmatch(price) for price in digits):
        came = fields.short(pricing)
        raise ValueError(f"{where}: pricing: {came}; expected like '$12.99' or '$5.00 to $9.50'")
    prices = tuple(map(float, digits))
    return prices, " to ".join(f"${price}" for price in prices)


def _options(record: Mapping[str, Any], where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, values), in lower case, as the page offers them; of equal names the last counts."""
    where = f"{where}: customization_options"
    given = fields.mapping(record.get("customization_options") or {}, where, "an object of lists")
    options = {}
    for name, contents in given.items():
        if contents is None:
            continue
        fields.texts({"names": [name]}, "names", where)
        if not isinstance(contents, list):
            raise ValueError(f"{where}: {name}: {fields.short(contents)}; expected a list")
        values = (
            fields.text(fields.mapping(item, f"{where}: {name}", "an object"), "value", f"{where}: {name}")
            for item in contents
        )
        options[name.lower()] = tuple(value.strip().replace("/", " | ").lower() for value in values)
    return tuple(options.items())


def _attributes(entry: Any, where: str) -> tuple[str, ...]:
    where = f"{where}: its entry in items_ins_v2"
    if entry is None or "attributes" not in fields.mapping(entry, where, "an object"):
        return NO_ATTRIBUTES
    return fields.texts(entry, "attributes", where)
