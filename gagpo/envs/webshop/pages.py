"""The pages of the shop: what they say, in the original's two text modes, and what can be clicked.

A page is a sequence of pieces, in the order in which the original's HTML holds them; white space is
treated as its HTML parser treats it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gagpo.envs.webshop.catalogue import Product

PAGE_SIZE = 10
BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
OFFERED_SUB_PAGES = SUB_PAGES[:3]
ASCII_SPACE = " \n\t\f\r"


@dataclass(frozen=True, slots=True)
class State:
    """Where a shopper is. `number` counts result pages from 1; `options` are (name, value) pairs in
    the order of their names; `seen` are the products opened since the last visit of the search page
    (only the rich text shows them, so elsewhere it stays empty)."""

    page: str = "search"  # search, results, item, one of SUB_PAGES, or done
    keywords: tuple[str, ...] = ()
    number: int = 0
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    seen: frozenset[str] = frozenset()


class Piece(NamedTuple):
    """A text of a page; `kind` is text, button, link (to a product), or option and the option's name."""

    text: str
    kind: str = "text"


def search_page(instruction: str) -> list[Piece]:
    return _pieces(["WebShop", "Instruction: ", instruction, Piece("Search", "button")])


def results_page(instruction: str, number: int, products: Sequence[Product], total: int) -> list[Piece]:
    """`products` are those of page `number`, `total` counts those of all pages."""
    previous = [Piece(PREVIOUS, "button")] if number > 1 else []
    found = [
        piece
        for product in products
        for piece in (Piece(product.asin, "link"), product.title, product.price_tag)
    ]
    heading = f"Page {number} (Total results: {total})"
    return _pieces([*_head(instruction), heading, *previous, Piece(NEXT, "button"), *found])


def item_page(instruction: str, product: Product) -> list[Piece]:
    options: list[str | Piece] = []
    for name, values in product.options:
        options += [name, *(Piece(value, f"option {name}") for value in values)]
    return _pieces(
        [
            *_head(instruction),
            Piece(PREVIOUS, "button"),
            *options,
            product.title,
            f"Price: {product.price_tag}",
            "Rating: N.A.",  # the original ships no reviews
            *(Piece(name, "button") for name in OFFERED_SUB_PAGES),
            Piece(BUY, "button"),
        ]
    )


def sub_page(instruction: str, product: Product, name: str) -> list[Piece]:
    contents = {
        "Description": [product.description],
        "Features": [f" {bullet}" for bullet in product.bullets],
        "Reviews": [],
        "Attributes": [
            *(f" {attribute}" for attribute in product.attributes),
            product.category,
            product.query,
            product.product_category,
        ],
    }
    return _pieces([*_head(instruction), Piece(PREVIOUS, "button"), *contents[name]])


def done_page(asin: str, options: Iterable[tuple[str, str]], reward: float) -> list[Piece]:
    """The page after a purchase, with the hidden form whose labels the text modes show too."""
    chosen = json.dumps(dict(sorted(options)))
    for sign in "<>&'":  # as the original's templates write JSON
        chosen = chosen.replace(sign, f"\\u{ord(sign):04x}")
    return [
        Piece(text)
        for text in (
            *(
                "Thank you for shopping with us!",
                "Your code: ",
                "None",
                " (Paste it in your MTurk interface.)",
            ),
            *("Purchased", "asin", asin, "options", chosen, "attrs", "None", "category", "None"),
            *("query", "None", "product category", "None"),
            *("Target", "asin", "options", "attrs", "price upper", "instuction text", "category"),
            *("product category", "query", "Goal ", "None", "Reward"),
            *("Your score (min 0.0, max 1.0)", str(reward), "Reward Details ", "None"),
        )
    ]


def plain_text(pieces: Sequence[Piece]) -> str:
    """The mode `text`: pieces between separators."""
    return " [SEP] ".join(piece.text.strip() for piece in pieces if piece.text)


def rich_text(pieces: Sequence[Piece], clicked: frozenset[str], address: str) -> str:
    """The mode `text_rich`: pieces on lines, with what can be clicked and what was.

    `clicked` are products that were opened; an option counts as clicked where `address`, the
    original's URL of the page, holds it in quotation marks.
    """
    text = ""
    for piece in pieces:
        if not piece.text:  # to an HTML parser it is not there
            continue
        if piece.kind == "button":
            text += f"[button] {piece.text} [button_]\n"
        elif piece.kind == "link":
            kind = "clicked button" if piece.text in clicked else "button"
            text += f"\n[{kind}] {piece.text} [{kind}_]\n"
        elif piece.kind == "text":
            text += f"{piece.text}\n"
        elif f'"{piece.text}"' in address:
            text = (
                f"You have clicked {piece.text}.\n{text}  [clicked button] {piece.text} [clicked button_]\n"
            )
        else:
            text += f"  [button] {piece.text} [button_]\n"
    return text


def clickables(pieces: Sequence[Piece]) -> dict[str, Piece]:
    """{what a click names: the piece}, buttons and links first, then options, as the original lists
    them. Of equal names the last counts, at the place of the first."""
    buttons = [piece for piece in pieces if piece.kind in ("button", "link")]
    options = [piece for piece in pieces if piece.kind.startswith("option ")]
    return {piece.text.lower(): piece for piece in buttons} | {piece.text: piece for piece in options}


def _head(instruction: str) -> list[str | Piece]:
    return ["Instruction:", instruction, Piece(BACK, "button")]


def _pieces(items: Iterable[str | Piece]) -> list[Piece]:
    """Pieces, without texts that an HTML parser would not see; white space alone becomes one space."""
    pieces = []
    for item in items:
        piece = Piece(item) if isinstance(item, str) else item
        if piece.kind == "text" and not piece.text.strip(ASCII_SPACE):
            if not piece.text or "\n" in piece.text:
                continue
            piece = Piece(" ")
        pieces.append(piece)
    return pieces
