"""The nouns of a title, which the score compares: as a tagger told them once, or by a plain rule.

WebShop asks spaCy at every purchase. Here its answers are kept in a file beside the products:

    python -m gagpo.envs.webshop.nouns items_shuffle_1000.json

writes items_nouns_1000.json with the package spacy and its model en_core_web_sm. A catalogue without
such a file is read by `plain_nouns`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gagpo.envs.webshop import fields
from gagpo.envs.webshop.json_array import items
from gagpo.envs.webshop.reward import Nouns

WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
# What titles hold that is no noun, in lower case.
NO_NOUNS = """
a an and any are as at be best by can for from great in into is it its made more new no not of off on or
our out over that the their this to up very with without you your
"""
OTHERS = frozenset(NO_NOUNS.split())


def plain_nouns(title: str) -> tuple[str, ...]:
    """The words of a title but for some forty: to a tagger, most words of a title are names."""
    words = (word.removesuffix("'s") for word in WORD.findall(title.lower()))
    return tuple(word for word in words if word not in OTHERS)


def nouns_beside(products: Path) -> Nouns:
    """The tagger's nouns where `products` has a file of them beside it, else `plain_nouns`."""
    path = nouns_file(products)
    if not path.exists():
        return plain_nouns
    where = f"catalogue: {path}"
    try:
        table = fields.mapping(json.loads(path.read_text("utf-8")), where, "an object of lists")
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{where}: {error}") from error
    known = {title: fields.texts(table, title, where) for title in table}
    return lambda title: known[title] if title in known else plain_nouns(title)


def nouns_file(products: Path) -> Path:
    """items_nouns_1000.json beside items_shuffle_1000.json."""
    return products.with_name(products.name.replace("items_shuffle", "items_nouns"))


def tagged(titles: Sequence[str]) -> dict[str, list[str]]:
    """What WebShop calls the nouns of each title: spaCy's tokens with the tag NOUN or PROPN."""
    import spacy

    tagger = spacy.load("en_core_web_sm")
    return {
        doc.text: [token.text.lower() for token in doc if token.pos_ in ("NOUN", "PROPN")]
        for doc in tagger.pipe(dict.fromkeys(titles))
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Tag the titles of a products file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("products", type=Path, help="an items_shuffle*.json")
    products = parser.parse_args(argv).products
    titles = [fields.text(record, "name", str(products)) for *_, record in items(products)]
    path = nouns_file(products)
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(tagged(titles)), "utf-8")
    os.replace(aside, path)


if __name__ == "__main__":
    main()
