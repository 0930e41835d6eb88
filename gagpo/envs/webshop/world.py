"""WebShop as a world: the original's data where they are at hand, else a generated catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import SPLITS, plain_number
from gagpo.envs.webshop import pages
from gagpo.envs.webshop.catalogue import from_records
from gagpo.envs.webshop.files import find_files, open_catalogue, read_object
from gagpo.envs.webshop.game import ShopGame
from gagpo.envs.webshop.generate import generate
from gagpo.envs.webshop.goals import human_goals, synthetic_goals
from gagpo.envs.webshop.index import Index
from gagpo.envs.webshop.nouns import nouns_beside, nouns_file, plain_nouns
from gagpo.envs.webshop.reward import R_TYPES, Goal, matcher
from gagpo.envs.webshop.shop import Shop

NUM_GENERATED = 2000
MAX_UNSEEN = 500  # the first goals, as the published experiments hold them out
UNSEEN_SHARE = 5
OPENING = Lock()  # threads that ask for one shop wait for it, rather than open one each
FIXED_WORDS = (
    '[SEP] [button] [button_] clicked You have . , : { } " click[ search[<words>] Price: Rating: N.A. Buy Now'
)


def make_world(config: WorldConfig) -> WebShopWorld:
    """The world of a shop. Raises ValueError where a file is missing or holds what it should not."""
    matcher()
    return WebShopWorld(config)


class WebShopWorld:
    """Tasks are named webshop/<place of the goal in WebShop's order>.

    The first goals are unseen: 500 of them, or a fifth where there are fewer than 2,500. A goal that
    reads like one of these is in neither split.
    """

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        settings = (getattr(config, name) for name in SHOP_SETTINGS)
        with OPENING:
            self.shop = _shop(*settings, _stamps(config.catalogue))
        goals = self.shop.goals
        known = sorted({goal.category for goal in goals})
        for name in config.task_types:
            if name not in known:
                near = get_close_matches(name, known, 1, 0.4)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"task_types: {name!r}; expected some of {', '.join(known)}{hint}")
        num_unseen = min(MAX_UNSEEN, len(goals) // UNSEEN_SHARE)
        held_out = {goal.instruction for goal in goals[:num_unseen]}
        repeated = [i for i in range(num_unseen, len(goals)) if goals[i].instruction in held_out]
        self.skipped = dict(self.shop.catalogue.skipped)
        if repeated:
            self.skipped["goals that read like unseen ones"] = len(repeated)
        wanted = [
            i for i, goal in enumerate(goals) if not config.task_types or goal.category in config.task_types
        ]
        self._places = {
            "unseen": [i for i in wanted if i < num_unseen],
            "train": [i for i in wanted if i >= num_unseen and goals[i].instruction not in held_out],
        }

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` ids, none twice; ValueError where the split has not so many."""
        if split not in SPLITS:
            raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
        places = self._places[split]
        if num > len(places):
            raise ValueError(
                f"{num} tasks of split {split!r} were asked for, and there are {len(places)} goals; "
                "lower num_tasks, warm_episodes, eval_tasks or final_eval_tasks, or raise num_products"
            )
        return [f"webshop/{places[i]}" for i in rng.permutation(len(places))[:num]]

    def make(self, task_id: str) -> ShopGame:
        """The game of a task id. Raises ValueError for an id that is not of this world."""
        config = self.config
        return ShopGame(
            self.shop,
            self._goal(task_id),
            task_id,
            max_steps=config.max_steps,
            success_reward=config.success_reward,
            partial_reward=config.partial_reward,
            suggest_searches=config.suggest_searches,
        )

    def task_type(self, task_id: str) -> str:
        """The category of the product that is wanted."""
        return self._goal(task_id).category

    def words(self) -> set[str]:
        """Every word of every page; a pass over all products."""
        found = {str(number) for number in range(1000)} | _scores(self.shop.goals)
        for goal in self.shop.goals:
            found.update(goal.instruction.lower().split())
        for product in self.shop.catalogue:
            texts = (product.document(), *product.bullets, *product.attributes, product.asin)
            texts += (product.category, product.query, product.product_category, product.price_tag)
            for text in texts:
                found.update(text.lower().split())
        return found | set(
            f"{FIXED_WORDS} {' '.join(piece.text for piece in _fixed_pieces())}".lower().split()
        )

    def _goal(self, task_id: str) -> Goal:
        name, _, place = task_id.partition("/")
        goals = self.shop.goals
        number = plain_number(place, len(goals))
        if name != "webshop" or number is None:
            raise ValueError(f"task_id: {task_id!r:.200}; expected webshop/<0 to {len(goals) - 1}>")
        return goals[number]


SHOP_SETTINGS = ("catalogue", "catalogue_index", "num_products", "shop_seed", "human_goals", "page_text")


def _stamps(catalogue: str | None) -> tuple[tuple[int, int], ...]:
    """Size and time of each file of a catalogue."""
    if catalogue is None:
        return ()
    files = find_files(catalogue)
    paths = [path for path in (*files, nouns_file(files.products)) if path.exists()]
    return tuple((stat.st_size, stat.st_mtime_ns) for stat in map(Path.stat, paths))


@lru_cache(maxsize=4)
def _shop(
    catalogue: str | None,
    index: str | None,
    num_products: int,
    seed: int,
    human: bool,
    mode: str,
    stamps: tuple,
) -> Shop:
    """One shop for all that ask for it: it is large, and nothing in it changes. Of a catalogue whose
    files were changed (`stamps`), it is another."""
    if catalogue is None:
        records, attributes, requests = generate(num_products or NUM_GENERATED, seed)
        where = ("generated attributes", "generated requests")
        products = from_records(records, attributes, "generated products")
        search = Index.in_memory((product.asin, product.document()) for product in products)
        nouns = plain_nouns
    else:
        files = find_files(catalogue)
        attributes = read_object(files.attributes)
        requests = read_object(files.requests) if human else {}
        where = (str(files.attributes), str(files.requests))
        products, search = open_catalogue(files, attributes, num_products, index)
        nouns = nouns_beside(files.products)
    if human:
        goals, prices = human_goals(products, requests, where[1], seed)
    else:
        goals, prices = synthetic_goals(products, attributes, where[0], seed)
    origin = _shop, (catalogue, index, num_products, seed, human, mode, stamps)
    return Shop(products, search, goals, prices, nouns, mode, origin)


def _fixed_pieces() -> list[pages.Piece]:
    """What is on pages whatever the products, but for numbers."""
    sub_pages = [pages.Piece(name) for name in pages.SUB_PAGES]
    return [
        *pages.search_page(""),
        *pages.results_page("", 2, [], 0),
        *sub_pages,
        *pages.done_page("", (), 0),
    ]


def _scores(goals: Sequence[Goal]) -> set[str]:
    """Every score that the last page can show."""
    nums = {len(goal.attributes) + len(goal.options) + 1 for goal in goals}
    return {str(n / num * r_type) for num in nums for n in range(num + 1) for r_type in R_TYPES}
