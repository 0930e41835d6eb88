"""What a purchase is worth: WebShop's score, with its parts.

    score = r_type * (matched attributes + matched options + price_ok)
            / (attributes + options + 1)

after section 3 of the WebShop paper (arXiv 2207.01206) and, where they differ, its public code:
nouns are compared as that code compares them, with repetitions in the denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from gagpo.envs.webshop.catalogue import Product

# title -> its nouns in lower case, in order, repetitions included
Nouns = Callable[[str], Sequence[str]]

NOT_ASCII = dict.fromkeys(range(128, 256))  # thefuzz leaves these out, and only these
MATCH = 85  # a rounded similarity above this is a match
R_TYPES = (1.0, 0.5, 0.1, 0.0)
CATEGORY_SEPARATOR = "›"
COLORS = tuple(
    """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy
    camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral
    cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass
    gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon
    mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter
    pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone
    stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a shopper wants. `options` are values, or (name, value) pairs in synthetic goals;
    `price_upper` is in dollars."""

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str | tuple[str, str], ...]
    price_upper: float
    category: str
    query: str
    product_category: str
    title: str


@dataclass(frozen=True, slots=True)
class Score:
    """The score in [0, 1] and its parts: r_attributes and r_options are shares of what was wanted
    (1 where nothing was), r_price is 0 or 1, title_score the share of wanted nouns in the title."""

    total: float
    r_type: float
    r_attributes: float
    r_options: float
    r_price: float
    query_match: bool
    category_match: bool
    title_score: float


def score(product: Product, goal: Goal, price: float, chosen: Sequence[str], nouns: Nouns) -> Score:
    """The score of buying `product` at `price` with the `chosen` option values."""
    r_type, query_match, category_match, title_score = _type_score(product, goal, nouns)
    num_attributes = sum(_has(product, attribute) for attribute in goal.attributes)
    picked = [_color(value) for value in chosen]
    num_options = sum(
        any(similarity(value, wanted) > MATCH for value in picked) for wanted in map(_color, goal.options)
    )
    r_price = float(price <= goal.price_upper)
    num_wanted = len(goal.attributes) + len(goal.options) + 1
    return Score(
        total=(num_attributes + num_options + r_price) / num_wanted * r_type,
        r_type=r_type,
        r_attributes=num_attributes / len(goal.attributes) if goal.attributes else 1.0,
        r_options=num_options / len(goal.options) if goal.options else 1.0,
        r_price=r_price,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
    )


def similarity(one: str | tuple[str, str], two: str | tuple[str, str]) -> int:
    """thefuzz's token_set_ratio: 0 to 100, rounded; case and punctuation do not count, nor do
    characters between 128 and 255. A pair is compared in Python's notation of it."""
    ratio, process = matcher()
    one, two = (process(str(text).translate(NOT_ASCII)) for text in (one, two))
    return round(ratio(one, two))


@cache
def matcher() -> tuple[Callable[[str, str], float], Callable[[str], str]]:
    """(token_set_ratio, its preparation of a text); ValueError without the package rapidfuzz."""
    try:
        from rapidfuzz import fuzz, utils
    except ImportError as error:
        raise ValueError(
            "env webshop needs the package rapidfuzz: pip install 'gagpo-workbench[webshop]'"
        ) from error
    return fuzz.token_set_ratio, utils.default_process


def _type_score(product: Product, goal: Goal, nouns: Nouns) -> tuple[float, bool, bool, float]:
    """(r_type, query_match, category_match, title_score)."""
    query_match = product.query == goal.query
    paths = (
        {part.strip() for part in path.split(CATEGORY_SEPARATOR)}
        for path in (product.product_category, goal.product_category)
    )
    category_match = len(set.intersection(*paths)) >= 2
    wanted = nouns(goal.title)
    common = set(wanted) & set(nouns(product.title))
    title_score = len(common) / len(wanted) if wanted else 0.2
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1
    if title_score == 0.0:
        r_type = 0.0
    return r_type, query_match, category_match, title_score


def _has(product: Product, attribute: str) -> bool:
    """Is it among the product's attributes, nearly, or in its texts, word for word?"""
    if any(similarity(known, attribute) > MATCH for known in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def _color(value: str | tuple[str, str]) -> str | tuple[str, str]:
    """The first color that `value` holds, else `value` itself (in a pair: that it equals)."""
    return next((color for color in COLORS if color in value), value)
