"""The shop that all its tasks share: products, search, prices, goals, and where each click leads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from gagpo.envs.webshop import pages
from gagpo.envs.webshop.catalogue import Catalogue
from gagpo.envs.webshop.index import Index
from gagpo.envs.webshop.pages import Piece, State
from gagpo.envs.webshop.reward import Goal, Nouns, Score, score

NUM_RESULTS = 50
# Where "< Prev" and "Next >" lead depends on the first of these names that the page's address holds,
# and the address holds the keywords.
ADDRESSES = ("search_results", "item_page", "item_sub_page")


class Shop:
    """What does not change while shoppers come and go; shared by threads.

    `mode` is "text" or "text_rich", the original's names of its observation modes; `origin` is a
    function and its arguments that give the same shop.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        index: Index,
        goals: Sequence[Goal],
        prices: dict[str, float],
        nouns: Nouns,
        mode: str,
        origin: tuple[Callable[..., Shop], tuple] | None = None,
    ) -> None:
        self.catalogue, self.index, self.goals, self.prices = catalogue, index, goals, prices
        self.nouns, self.rich = lru_cache(maxsize=65_536)(nouns), mode == "text_rich"
        self._origin = origin
        self.results = lru_cache(maxsize=65_536)(self._results)

    def __reduce__(self) -> tuple[Callable[..., Shop], tuple]:
        """A shop is too large to be copied: it is opened again where it is unpickled."""
        if self._origin is None:
            raise TypeError("a Shop without an origin cannot be pickled")
        return self._origin

    def pieces(self, goal: Goal, state: State) -> list[Piece]:
        """The page that a shopper with this goal sees."""
        text = goal.instruction
        if state.page == "search":
            return pages.search_page(text)
        if state.page == "results":
            asins = self.results(state.keywords)
            first = (state.number - 1) * pages.PAGE_SIZE
            shown = [self.catalogue.product(asin) for asin in asins[first : first + pages.PAGE_SIZE]]
            return pages.results_page(text, state.number, shown, len(asins))
        if state.page == "done":
            return pages.done_page(state.asin, state.options, self.score(goal, state).total)
        product = self.catalogue.product(state.asin)
        if state.page == "item":
            return pages.item_page(text, product)
        return pages.sub_page(text, product, state.page)

    def text(self, state: State, shown: Sequence[Piece]) -> str:
        """A page in the words of the shop's mode."""
        return pages.rich_text(shown, state.seen, _address(state)) if self.rich else pages.plain_text(shown)

    def follow(self, state: State, command: str, clickables: dict[str, Piece]) -> State | None:
        """Where a command leads; None where the original does nothing.

        A search is taken on every page, as the original takes it.
        """
        name, argument = _parsed(command)
        if name == "search":
            return State("results", tuple(argument.split(" ")), 1, seen=state.seen)
        if not self.accepts(command, clickables):
            return None
        return self._click(state, argument, clickables[argument])

    def accepts(self, command: str, clickables: dict[str, Piece]) -> bool:
        """Is this click one that does something?"""
        name, argument = _parsed(command)
        return name == "click" and argument in clickables and argument != "search"

    def score(self, goal: Goal, state: State) -> Score:
        """What buying the product of this page, with these options, is worth."""
        chosen = [value for _, value in state.options]
        return score(self.catalogue.product(state.asin), goal, self.prices[state.asin], chosen, self.nouns)

    def identity(self, state: State) -> str:
        """Equal for two states if and only if all that can follow is.

        Two searches that find the same products are one state: the words are not shown, and nothing
        depends on them, but for the oddities of the original's addresses.
        """
        odd = " ".join(state.keywords) if _is_odd(state.keywords) else ""
        found = self.results(state.keywords) if state.keywords else ()
        parts = (state.page, found, odd, state.number, state.asin, state.options, sorted(state.seen))
        return blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def _click(self, state: State, name: str, piece: Piece) -> State:
        """The names of the shop's own buttons come before an option or a product that is called the
        same; but what acts on a product needs one. (There the original fails.)"""
        where = _address_name(state)
        if name == pages.BUY.lower() and state.asin:
            return replace(state, page="done")
        if name == pages.BACK.lower():
            return State()
        if name == pages.NEXT.lower() and where == "search_results":
            return State("results", state.keywords, state.number + 1, seen=state.seen)
        if name == pages.PREVIOUS.lower() and where == "search_results":
            return State("results", state.keywords, state.number - 1, seen=state.seen)
        if name == pages.PREVIOUS.lower() and where == "item_page":
            return State("results", state.keywords, state.number, seen=state.seen)
        for sub_page in pages.SUB_PAGES:
            if name == sub_page.lower() and state.asin:
                return replace(state, page=sub_page)
        return self._item(state, name, piece)

    def _item(self, state: State, name: str, piece: Piece) -> State:
        """The page of a product that was clicked, of the current one with an option chosen, or back
        from a sub-page."""
        if piece.kind == "link":
            seen = state.seen | {piece.text} if self.rich else state.seen
            return State("item", state.keywords, state.number, piece.text, state.options, seen)
        if piece.kind == "button":
            return replace(state, page="item")
        options = {**dict(state.options), piece.kind.removeprefix("option "): name}
        return replace(state, page="item", options=tuple(sorted(options.items())))

    def _results(self, keywords: tuple[str, ...]) -> tuple[str, ...]:
        """The asins that a search finds, best first.

        The original knows four commands to itself: `<r>` (products at random; here always the same),
        `<a>` (all with an attribute; its text environment fails there), `<c>` (of a category) and
        `<q>` (of a query).
        """
        rest = " ".join(keywords[1:]).strip()
        if keywords[0] == "<r>":
            num = min(NUM_RESULTS, len(self.catalogue))
            return tuple(random.Random(0).sample(list(self.catalogue.asins), num))
        if keywords[0] == "<a>":
            return tuple(p.asin for p in self.catalogue if rest in p.attributes)
        if keywords[0] == "<c>":
            return tuple(p.asin for p in self.catalogue if p.category == "".join(keywords[1:2]))
        if keywords[0] == "<q>":
            return tuple(p.asin for p in self.catalogue if p.query == rest)
        found = self.index.search(" ".join(keywords), NUM_RESULTS)
        return tuple(asin for asin, _ in found if asin in self.catalogue)


def _parsed(command: str) -> tuple[str, str]:
    """What stands before the brackets, and in them, in lower case; two empty texts for what is no command.

    As the original's pattern (.+)\\[(.+)\\] finds them, which takes quadratic time where brackets repeat.
    """
    line = command.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return (line[:start], line[start + 1 : end].lower()) if start > 0 else ("", "")


def _address(state: State) -> str:
    """What the original's URL of a page holds that anything depends on."""
    kinds = {"search": "", "results": "search_results", "item": "item_page", "done": "done"}
    kind = kinds.get(state.page, "item_sub_page")
    options = json.dumps(dict(state.options)) if state.page != "results" else ""
    return f"{kind}/{state.asin}/{'+'.join(state.keywords)}/{state.number}/{options}"


def _address_name(state: State) -> str:
    address = _address(state)
    return next((name for name in ADDRESSES if name in address), "")


def _is_odd(keywords: tuple[str, ...]) -> bool:
    text = "+".join(keywords)
    return '"' in text or any(name in text for name in ADDRESSES)
