"""WebShop's data files: found, read in pieces, and indexed once.

Beside the products file (or in `catalogue_index`) a folder is kept for each state of that file: the
search index, and where in the file each product lies. The full set of 1.18 million products is
never held in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import numpy as np

from gagpo.envs.webshop import fields
from gagpo.envs.webshop.catalogue import Catalogue, Product, Sieve, asin_of, parse_prices, parse_product
from gagpo.envs.webshop.index import Index, build_index
from gagpo.envs.webshop.json_array import items, mapped

PRODUCTS = "items_shuffle*.json"
REQUESTS = "items_human_ins.json"
REMEDY = (
    "WebShop's setup.sh downloads items_shuffle_1000.json, items_ins_v2_1000.json and items_human_ins.json "
    "(or the full items_shuffle.json and items_ins_v2.json); name the folder that holds them"
)
FORMAT = "1"


class Files(NamedTuple):
    products: Path
    attributes: Path
    requests: Path


def find_files(catalogue: str) -> Files:
    """The three files of a folder, or those that lie beside a products file."""
    path = Path(catalogue).expanduser()
    if path.is_dir():
        found = sorted(path.glob(PRODUCTS))
        if not found:
            raise ValueError(f"catalogue: no {PRODUCTS} in {path}. {REMEDY}")
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise ValueError(f"catalogue: {path} holds {names}; expected one. Name the file instead")
        path = found[0]
    elif not path.is_file():
        raise ValueError(f"catalogue: {path} is neither a file nor a folder. {REMEDY}")
    attributes = path.with_name(path.name.replace("items_shuffle", "items_ins_v2"))
    if attributes == path:
        raise ValueError(f"catalogue: {path}; expected a name like items_shuffle_1000.json")
    files = Files(path, attributes, path.with_name(REQUESTS))
    for file in files[1:]:
        if not file.is_file():
            raise ValueError(f"catalogue: {file} is missing. {REMEDY}")
    return files


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"catalogue: {path}: {error}") from error
    return fields.mapping(content, f"catalogue: {path}", "an object with an entry for each asin")


def open_catalogue(
    files: Files, attributes: dict[str, Any], num_products: int, folder: str | None
) -> tuple[Catalogue, Index]:
    """The products of a file (the first `num_products`; 0 for all) and the index of their texts.

    Both are prepared the first time; that takes minutes for the full set.
    """
    stat = files.products.stat()
    state = (FORMAT, str(files.products.resolve()), stat.st_size, stat.st_mtime_ns, num_products)
    key = blake2b(repr(state).encode(), digest_size=8).hexdigest()
    home = Path(folder).expanduser() if folder else files.products.with_suffix(".index")
    places = Places(home / f"{key}.places.npz")
    try:
        if not (home / key).exists():
            home.mkdir(parents=True, exist_ok=True)
            build_index(places.documents(files.products, attributes, num_products), home / key, source=key)
    except OSError as error:
        raise ValueError(
            f"catalogue_index: {home}: {error.strerror}; expected a folder that can be written"
        ) from error
    except ValueError:
        if not (home / key).exists():  # else another process has made it in the meantime
            raise
    return places.catalogue(files.products, attributes), Index.open(home / key)


class Places:
    """Where in the products file each product lies, kept in a file of arrays."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def documents(self, products: Path, attributes: dict[str, Any], num: int) -> Iterator[tuple[str, str]]:
        """(asin, text) of each product for the search engine; the places are written at the end."""
        spans, asins, prices, sieve = [], [], [], Sieve()
        for number, (start, end, record) in enumerate(items(products)):
            if num and number >= num:
                break
            where = f"{products}: product {number}"
            asin = asin_of(record, where)
            if not sieve.keeps(asin):
                continue
            spans.append((start, end))
            asins.append(asin)
            found = parse_prices(record, f"{where} ({asin})")[0]
            prices.append((found[0], found[1] if len(found) > 1 else np.nan))
            yield asin, parse_product(record, attributes, where).document()
        if not spans:
            raise ValueError(f"catalogue: {products} holds no product")
        skipped = json.dumps(sieve.skipped)
        with NamedTemporaryFile(dir=self.path.parent, suffix=".part", delete=False) as aside:
            np.savez(
                aside,
                spans=np.array(spans, np.int64),
                asins=np.array([asin.encode() for asin in asins]),
                prices=np.array(prices, np.float64),
                skipped=np.frombuffer(skipped.encode(), np.uint8),
            )
        os.chmod(aside.name, 0o644)  # a temporary file is for its owner alone
        os.replace(aside.name, self.path)

    def catalogue(self, products: Path, attributes: dict[str, Any]) -> Catalogue:
        """The catalogue whose products are cut out of their file when they are asked for."""
        try:
            with np.load(self.path) as arrays:
                spans, prices = arrays["spans"], arrays["prices"]
                asins = [asin.decode() for asin in arrays["asins"].tolist()]
                skipped = json.loads(arrays["skipped"].tobytes())
            if not spans.shape == prices.shape == (len(asins), 2):
                raise ValueError(f"{len(asins)} asins, {spans.shape} places and {prices.shape} prices")
        except Exception as error:  # of a damaged archive almost any comes
            raise ValueError(f"{self.path}: {error}; remove its folder to have it made anew") from error
        listed = [(low,) if high != high else (low, high) for low, high in prices.tolist()]
        content = mapped(products)

        @lru_cache(maxsize=65_536)
        def load(place: int) -> Product:
            start, end = spans[place]
            where = f"{products}: byte {start}"
            try:
                record = json.loads(content[start:end].decode())
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where}: {error}; remove {self.path} to have it made anew") from error
            return parse_product(record, attributes, where)

        return Catalogue(asins, listed, load, skipped)
