"""Plays what `record_webshop.py` recorded of the original on our shop, and compares every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gagpo.envs.webshop.catalogue import from_records
from gagpo.envs.webshop.game import ShopGame
from gagpo.envs.webshop.goals import human_goals, synthetic_goals
from gagpo.envs.webshop.index import Index
from gagpo.envs.webshop.shop import Shop

PARTS = {"r_type": "r_type", "r_att": "r_attributes", "r_option": "r_options", "r_price": "r_price"}
PARTS |= {name: name for name in ("query_match", "category_match", "title_score")}


def open_shop(
    record: Mapping[str, Any], seed: int, human: bool, mode: str, nouns: Mapping[str, Sequence[str]]
) -> Shop:
    """Our shop with the products, attributes and requests of a record."""
    catalogue = from_records(record["products"], record["attributes"], "products")
    if human:
        goals, prices = human_goals(catalogue, record["requests"], "requests", seed)
    else:
        goals, prices = synthetic_goals(catalogue, record["attributes"], "attributes", seed)
    index = Index.in_memory((product.asin, product.document()) for product in catalogue)
    return Shop(catalogue, index, goals, prices, nouns.__getitem__, mode)


def replay(ours: Shop, episode: dict[str, Any], where: str) -> None:
    goal = ours.goals[episode["goal"]]
    game = ShopGame(ours, goal, "golden", max_steps=1000, success_reward=10.0, partial_reward=False)
    observation, _ = game.reset()
    expected = {"observation": episode["start"], "clickables": ["search"], "has_search_bar": True}
    assert observation == expected["observation"], where
    for turn, step in enumerate(episode["steps"]):
        expected |= {key: step[key] for key in expected if key in step}
        observation, reward, terminated, _, info = game.step(step["action"])
        here = f"{where}, step {turn}: {step['action']!r}"
        assert observation == expected["observation"], here
        assert (terminated, info.get("score", 0)) == (step["done"], step["reward"]), here
        if terminated:
            assert reward == (10.0 if step["reward"] == 1.0 else 0.0), here
            theirs = {PARTS[name]: value for name, value in step["parts"].items() if name in PARTS}
            assert {name: info["parts"][name] for name in theirs} == theirs, here
        else:
            assert list(game.clickables()) == expected["clickables"], here
            assert (game.snapshot()[0].page == "search") == expected["has_search_bar"], here
