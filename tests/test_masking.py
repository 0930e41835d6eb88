"""Masked decoding: the tries behind it, by hand and against the definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagpo.masking import CommandTrie

END = 0
COMMANDS = ("go to bed", "go to desk", "go", "look")
IDS = ((1, 2, 3), (1, 2, 4), (1,), (5,))


def test_open_tokens_by_hand() -> None:
    trie = CommandTrie(COMMANDS, IDS, END)
    assert trie.allowed(()) == (1, 5)
    assert trie.allowed((1,)) == (END, 2), "a command that is a prefix of another may end or go on"
    assert trie.allowed((1, 2)) == (3, 4)
    assert trie.allowed((1, 2, 4)) == (END,)
    assert trie.allowed((1, 2, 4, END)) == ()
    assert trie.allowed_along((1, 2, 3, END)) == ((1, 5), (END, 2), (3, 4), (END,))


def test_a_finished_path_names_its_command_and_a_part_of_one_does_not() -> None:
    trie = CommandTrie(COMMANDS, IDS, END)
    assert [trie.command((*ids, END)) for ids in IDS] == list(COMMANDS)
    assert trie.command((1, 2)) is None


def test_what_must_follow_by_hand() -> None:
    trie = CommandTrie(COMMANDS, IDS, END)
    assert trie.rest(()) is None and trie.rest((1,)) is None and trie.rest((1, 2)) is None
    assert trie.rest((1, 2, 3)) == (END,) and trie.rest((5,)) == (END,) and trie.rest((5, END)) == ()
    assert CommandTrie(("go to bed",), ((1, 2, 3),), END).rest((1,)) == (2, 3, END)


def test_commands_that_the_tokenizer_confuses_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'take cup' and 'take mug' have the same tokens"):
        CommandTrie(("take mug", "take cup"), ((7, 9), (7, 9)), END)


def test_no_command_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        CommandTrie((), (), END)


@given(st.sets(st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple), min_size=1, max_size=8))
def test_allowed_equals_the_definition(commands: set[tuple[int, ...]]) -> None:
    ids = sorted(commands)
    trie = CommandTrie([str(i) for i in ids], ids, END)
    paths = [(*path, END) for path in ids]
    for path in paths:
        for length in range(len(path)):
            prefix = path[:length]
            expected = sorted({other[length] for other in paths if other[:length] == prefix})
            assert trie.allowed(prefix) == tuple(expected)
            ways = [other[length:] for other in paths if other[:length] == prefix]
            assert trie.rest(prefix) == (ways[0] if len(ways) == 1 else None)
