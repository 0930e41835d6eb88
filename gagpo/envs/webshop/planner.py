"""A plan that buys what is wanted: search, turn pages, open the product, choose, buy."""

from __future__ import annotations

from collections.abc import Sequence

from gagpo.envs.webshop import pages
from gagpo.envs.webshop.pages import State, clickables
from gagpo.envs.webshop.reward import MATCH, Goal, similarity
from gagpo.envs.webshop.shop import Shop


def next_command(shop: Shop, goal: Goal, searches: Sequence[str], state: State) -> str | None:
    """The next command on the way to a full score, through one of `searches` and the goal's product.

    None when that product cannot be found so or does not offer what is wanted.
    """
    choices = wanted_options(shop, goal)
    if choices is None or state.page == "done":
        return None
    if state.page == "search":
        return _best_search(shop, goal, searches)
    if state.page == "results":
        return _towards(shop, goal, searches, state)
    if state.page != "item":
        return f"click[{pages.PREVIOUS.lower()}]"
    if state.asin != goal.asin:
        found = _place(shop, goal, state.keywords) is not None
        return f"click[{(pages.PREVIOUS if found else pages.BACK).lower()}]"
    chosen = dict(state.options)
    missing = [value for name, value in choices if chosen.get(name) != value]
    return f"click[{missing[0]}]" if missing else f"click[{pages.BUY.lower()}]"


def wanted_options(shop: Shop, goal: Goal) -> tuple[tuple[str, str], ...] | None:
    """The (option, value) pairs of the goal's product that give a full score; None where none do."""
    shown = clickables(shop.pieces(goal, State("item", ("",), 1, goal.asin)))
    offered = [
        (piece.kind.removeprefix("option "), name)
        for name, piece in shown.items()
        if piece.kind.startswith("option ") and shop.accepts(f"click[{name}]", shown)
    ]
    choices: dict[str, str] = {}
    for wanted in goal.options:
        fitting = [(name, value) for name, value in offered if name not in choices and _fits(value, wanted)]
        if fitting:
            # The same words first: "pack of 2" resembles "pack of 12".
            name, value = min(fitting, key=lambda pair: (pair[1] != wanted, pair != wanted))
            choices[name] = value
    pairs = tuple(sorted(choices.items()))
    bought = State("done", ("",), 1, goal.asin, pairs)
    return pairs if shop.score(goal, bought).total == 1.0 else None


def _fits(value: str, wanted: str | tuple[str, str]) -> bool:
    return (
        value == wanted
        or (isinstance(wanted, tuple) and value == wanted[1])
        or (similarity(value, wanted) > MATCH)
    )


def _best_search(shop: Shop, goal: Goal, searches: Sequence[str]) -> str | None:
    """The search that puts the product highest."""
    places = [(_place(shop, goal, _keywords(search)), search) for search in searches]
    found = [(place, search) for place, search in places if place is not None]
    return min(found)[1] if found else None


def _towards(shop: Shop, goal: Goal, searches: Sequence[str], state: State) -> str | None:
    place = _place(shop, goal, state.keywords)
    if place is None:
        return f"click[{pages.BACK.lower()}]" if _best_search(shop, goal, searches) else None
    page = 1 + place // pages.PAGE_SIZE
    if page == state.number:
        return f"click[{goal.asin.lower()}]"
    return f"click[{(pages.NEXT if page > state.number else pages.PREVIOUS).lower()}]"


def _place(shop: Shop, goal: Goal, keywords: tuple[str, ...]) -> int | None:
    found = shop.results(keywords)
    return found.index(goal.asin) if goal.asin in found else None


def _keywords(search: str) -> tuple[str, ...]:
    return tuple(search.removeprefix("search[").removesuffix("]").split(" "))
