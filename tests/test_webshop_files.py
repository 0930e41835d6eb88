"""WebShop's data files, read as their authors laid them out, and refused when they are damaged."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import odd_products
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.check import check_world
from gagpo.envs.webshop import files, json_array, nouns
from gagpo.envs.webshop.catalogue import from_records
from gagpo.envs.webshop.files import Places, find_files, open_catalogue, read_object
from gagpo.envs.webshop.generate import write_catalogue
from gagpo.envs.webshop.json_array import items
from gagpo.envs.webshop.nouns import plain_nouns
from gagpo.envs.webshop.world import WebShopWorld

NUM = 120


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webshop")
    write_catalogue(folder, NUM, 0)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """The three files, in a folder of their own."""
    return Path(shutil.copytree(original, tmp_path / "data"))


def opened(folder: Path, **settings: Any) -> WebShopWorld:
    return make_world(WorldConfig(env="webshop", catalogue=str(folder), **settings))


def changed(path: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(change(content) or content), "utf-8")


def test_files_and_memory_hold_the_same_shop(folder: Path) -> None:
    disk = opened(folder).shop
    memory = make_world(WorldConfig(env="webshop", num_products=NUM)).shop
    assert list(disk.catalogue) == list(memory.catalogue)
    assert disk.goals == memory.goals and disk.prices == memory.prices
    for query in ("shampoo", "gluten free tea", "women's dress"):
        assert disk.results(tuple(query.split(" "))) == memory.results(tuple(query.split(" ")))


def test_the_contract_holds_for_files(folder: Path) -> None:
    check_world(opened(folder, max_steps=12), num_tasks=2)


def test_the_index_is_made_once_for_each_state_of_the_file(folder: Path) -> None:
    kept = folder / f"items_shuffle_{NUM}.index"
    first = opened(folder).shop
    names = sorted(path.name for path in kept.iterdir())
    assert opened(folder, shop_seed=1).shop is not first  # another shop, of the same index
    assert sorted(path.name for path in kept.iterdir()) == names
    changed(folder / f"items_shuffle_{NUM}.json", lambda products: products[:50])
    assert len(opened(folder, shop_seed=2).shop.catalogue) == 50
    assert len(list(kept.iterdir())) == 2 * len(names)


def test_another_folder_can_hold_the_index(folder: Path, tmp_path: Path) -> None:
    opened(folder, catalogue_index=str(tmp_path / "elsewhere"))
    assert list((tmp_path / "elsewhere").iterdir()) and not list(folder.glob("*.index"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"catalogue_index: .*file.*expected a folder"):
        opened(folder, catalogue_index=str(tmp_path / "file" / "x"))


def test_the_first_products_of_a_file_are_enough_when_asked_for(folder: Path) -> None:
    some, every = opened(folder, num_products=40).shop, opened(folder).shop
    assert list(some.catalogue.asins) == list(every.catalogue.asins)[:40]
    assert {goal.asin for goal in some.goals} <= set(some.catalogue.asins)


def test_nouns_of_a_tagger_are_used_where_they_lie_beside(folder: Path) -> None:
    titles = [product.title for product in opened(folder).shop.catalogue]
    table = {titles[0]: ["one", "one"]}
    (folder / f"items_nouns_{NUM}.json").write_text(json.dumps(table), "utf-8")
    shop = opened(folder, shop_seed=9).shop
    assert shop.nouns(titles[0]) == ("one", "one") and shop.nouns(titles[1]) == plain_nouns(titles[1])
    (folder / f"items_nouns_{NUM}.json").write_text('{"x": [1]}', "utf-8")
    with pytest.raises(ValueError, match=r"items_nouns_120.json: x: \[1\]; expected a list of texts"):
        opened(folder, shop_seed=10)


def test_nouns_are_written_beside_the_products(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        nouns, "tagged", lambda titles: {title: title.lower().split()[:1] for title in titles}
    )
    nouns.main([str(folder / f"items_shuffle_{NUM}.json")])
    shop = opened(folder, shop_seed=11).shop
    titles = [product.title for product in shop.catalogue]
    assert [shop.nouns(title) for title in titles] == [(title.lower().split()[0],) for title in titles]


def test_missing_files_are_told_with_a_remedy(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere is neither a file nor a folder.*setup.sh"):
        opened(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no items_shuffle\*.json in .*setup.sh"):
        opened(tmp_path / "data" / "..")
    (folder / "items_human_ins.json").unlink()
    with pytest.raises(ValueError, match=r"items_human_ins.json is missing.*setup.sh"):
        opened(folder)
    write_catalogue(folder, 5, 0)
    with pytest.raises(ValueError, match=r"holds items_shuffle_120.json, items_shuffle_5.json; expected one"):
        opened(folder)
    assert find_files(str(folder / "items_shuffle_5.json")).attributes == folder / "items_ins_v2_5.json"
    with pytest.raises(ValueError, match=r"expected a name like items_shuffle_1000.json"):
        opened(folder / "items_human_ins.json")


DAMAGES = {
    "name": (None, "missing"),
    "full_description": (7, "7; expected a text"),
    "small_description": ([1], r"\[1\]; expected a list of texts"),
    "category": ("\ud800", "expected whole characters"),
    "pricing": ("cheap", "'cheap'|\"cheap\"; expected like"),
    "customization_options": ({"color": [{"v": 1}]}, "color: value: missing"),
    "asin": (["B0"], "expected a text"),
}


@pytest.mark.parametrize("field", DAMAGES)
def test_a_damaged_product_is_named_with_its_field(folder: Path, field: str) -> None:
    value, message = DAMAGES[field]

    def damage(products: list[dict]) -> None:
        products[17][field] = value
        if value is None:
            del products[17][field]

    changed(folder / f"items_shuffle_{NUM}.json", damage)
    with pytest.raises(ValueError, match=rf"items_shuffle_{NUM}.json: product 17.*{field}.*({message})"):
        opened(folder)
    assert not list(folder.glob("*.index/*.places.npz"))  # nothing half made


def test_damaged_goals_are_named_with_their_place(folder: Path) -> None:
    requests = folder / "items_human_ins.json"
    asin = next(iter(read_object(requests)))
    for key, value in (("instruction", 1), ("instruction_attributes", "x"), ("instruction_options", None)):
        changed(requests, lambda r, key=key, value=value: {**r, asin: [{**r[asin][0], key: value}]})
        with pytest.raises(ValueError, match=rf"items_human_ins.json: {asin}, request 0: {key}"):
            opened(folder)
        shutil.copy(requests, folder / "spoilt")
        write_catalogue(folder, NUM, 0)
    changed(requests, lambda r: {asin: {}})
    with pytest.raises(ValueError, match=rf"{asin}: {{}}; expected a list of requests"):
        opened(folder)


def test_a_damaged_index_is_refused_with_a_remedy(folder: Path) -> None:
    opened(folder)
    for path in sorted((folder / f"items_shuffle_{NUM}.index").glob("*.npz")):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"places.npz: .*remove"):
        opened(folder, shop_seed=3)


def test_what_is_skipped_is_counted() -> None:
    catalogue = from_records(odd_products.PRODUCTS, odd_products.ATTRIBUTES, "odd")
    assert catalogue.skipped == {
        "repeated asins": 1,
        "products without asin": 1,
        "asins of more than 10 characters": 1,
    }
    assert len(catalogue) == len(odd_products.PRODUCTS) - 3
    by_asin = {product.asin: product for product in catalogue}
    assert by_asin["B0ODD00001"].prices == (10.0, 30.0) and "Deluxe" in by_asin["B0ODD00001"].title
    assert by_asin["B0ODD00011"].prices == (1299.0,) and by_asin["B0ODD00013"].price_tag == "$5.0 to $7.5"
    assert by_asin["B0ODD00009"].options == (("color", ("green", "gold")),)
    assert by_asin["B0ODD00005"].options == (("color", ("red | blue", "teal")),)


@pytest.mark.parametrize("late", [0, 1])
def test_another_process_may_index_the_same_file_and_be_quicker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    """The other is done before we begin to build, or just before our index gets its name."""
    found, build = find_files(str(folder)), files.build_index
    attributes = read_object(found.attributes)

    def overtaken(documents: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        yield from documents
        monkeypatch.setattr(files, "build_index", build)
        open_catalogue(found, attributes, 0, None)

    def build_late(documents: Iterator[tuple[str, str]], *args: Any, **kwargs: Any) -> None:
        documents = overtaken(documents)
        build(documents if late else iter(list(documents)), *args, **kwargs)

    monkeypatch.setattr(files, "build_index", build_late)
    catalogue, index = open_catalogue(found, attributes, 0, None)
    assert len(catalogue) == len(index) == NUM
    assert len(list((folder / f"items_shuffle_{NUM}.index").iterdir())) == 2  # nothing is left over


def test_a_changed_file_is_another_shop(folder: Path) -> None:
    first = opened(folder).shop
    assert opened(folder).shop is first
    title = next(iter(first.catalogue)).title
    (folder / f"items_nouns_{NUM}.json").write_text(json.dumps({title: ["one"]}), "utf-8")
    assert first.nouns(title) == plain_nouns(title) and opened(folder).shop.nouns(title) == ("one",)
    changed(folder / "items_human_ins.json", lambda requests: dict(list(requests.items())[:20]))
    assert len(opened(folder).shop.goals) == 20 < len(first.goals)


def test_any_damage_to_the_places_is_told_with_a_remedy(folder: Path) -> None:
    found = find_files(str(folder))
    attributes = read_object(found.attributes)
    listed = list(open_catalogue(found, attributes, 0, None)[0])
    (path,) = (folder / f"items_shuffle_{NUM}.index").glob("*.npz")
    whole, rng, num_refused = path.read_bytes(), random.Random(0), 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            near = rng.choice([rng.randrange(300), -1 - rng.randrange(600), rng.randrange(len(whole))])
            content[near] = rng.randrange(256)
        path.write_bytes(content)
        try:
            assert list(Places(path).catalogue(found.products, attributes)) == listed
        except ValueError as error:
            assert f"{path}: " in str(error) and "remove" in str(error)
            num_refused += 1
    assert num_refused > 200
    with np.load(io.BytesIO(whole)) as arrays:
        np.savez(path, **{**arrays, "prices": arrays["prices"][:5]})
    with pytest.raises(ValueError, match=r"places.npz: 120 asins, \(120, 2\) places and \(5, 2\) prices"):
        Places(path).catalogue(found.products, attributes)


@pytest.mark.parametrize("chunk", range(1, 30))
def test_a_number_at_the_end_of_a_piece_is_read_whole(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "items.json"
    path.write_text("[1.5, -20e+1, 3E2,12 ,0.25]", "utf-8")
    assert [value for *_, value in items(path, chunk)] == [1.5, -200.0, 300.0, 12, 0.25]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(content=st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=8), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_list_is_read_in_pieces_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, content: list, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("items") / "items.json"
    indent, plain = data.draw(st.sampled_from([None, 1])), data.draw(st.booleans())
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=plain), "utf-8", "surrogatepass")
    whole = path.read_bytes()
    try:
        whole.decode()
    except UnicodeDecodeError:
        return  # half a character; the damaged files below are about such
    found = list(items(path, data.draw(st.integers(1, 200))))
    assert [value for *_, value in found] == content
    assert all(json.loads(whole[start:end]) == value for start, end, value in found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"{}", r"expected '\['"),
        (b"[1, 2", "byte 5"),
        (b"[1 2]", "byte 2"),
        (b"[,1]", "byte 1"),
        (b"[1,,2]", "byte 2"),
        (b'[{"a": "\xff"}]', "UTF-8"),
        (b"[1] x", "byte 4: expected nothing after"),
        (b"[" * 100_000, "byte 1"),
        (b"[1" + b"0" * 5000 + b"]", "byte 1"),
    ],
)
def test_what_is_no_list_is_refused_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "items.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"items.json.*{message}"):
        list(items(path, 64))


def test_an_endless_item_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "MAX_ITEM", 1 << 12)
    path = tmp_path / "items.json"
    path.write_text(json.dumps(["x" * 100, "y" * 100_000]), "utf-8")
    with pytest.raises(ValueError, match=r"byte 103: .*4096 bytes at most"):
        list(items(path, 256))


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_spoilt_files_end_in_our_error_or_in_a_shop_that_opens(
    original: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = Path(shutil.copytree(original, tmp_path_factory.mktemp("spoilt") / "data"))
    shutil.rmtree(folder / f"items_shuffle_{NUM}.index", ignore_errors=True)
    name = data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
    path = folder / name
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.sampled_from([1, 1, 20, 5000]))
        junk = data.draw(
            st.sampled_from([b"", b'"', b"]", b"null", b"\\ud800", b"\xff", b"1e999", b"NaN", b"{}"])
        )
        content[start : start + length] = junk
        content = content or bytearray(b" ")
    path.write_bytes(content)
    try:
        shop = opened(folder)
    except ValueError as error:
        assert "catalogue" in str(error) or str(folder) in str(error), error
        return
    for task in shop.tasks("train", 2, np.random.default_rng(0)):
        game = shop.make(task)
        game.reset()
        game.step("search[shampoo]")
        game.step(game.admissible()[0])
