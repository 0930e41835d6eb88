"""Masked decoding: which tokens keep an action on the way to an admissible command.

The same mask serves sampling and training, so both see one distribution over commands.
"""

from __future__ import annotations

from collections.abc import Sequence


class CommandTrie:
    """The token sequences of the admissible commands, each closed by the end token."""

    def __init__(self, commands: Sequence[str], token_ids: Sequence[Sequence[int]], end_id: int) -> None:
        """`token_ids[i]` are the tokens of `commands[i]`, without the end token."""
        if not commands:
            raise ValueError("admissible: no command; masked decoding needs at least one")
        self._root: dict[int, dict] = {}
        self._commands: dict[tuple[int, ...], str] = {}
        for command, ids in zip(commands, token_ids, strict=True):
            path = (*ids, end_id)
            if self._commands.setdefault(path, command) != command:
                raise ValueError(
                    f"admissible: {command!r} and {self._commands[path]!r} have the same tokens; "
                    "the tokenizer does not know their words"
                )
            node = self._root
            for token in path:
                node = node.setdefault(token, {})

    def allowed(self, prefix: Sequence[int]) -> tuple[int, ...]:
        """The tokens that may follow `prefix`, ascending; empty once a command is closed."""
        node = self._root
        for token in prefix:
            node = node[token]
        return tuple(sorted(node))

    def allowed_along(self, action_ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """For each token of an action, the tokens that were open in its place."""
        node = self._root
        allowed = []
        for token in action_ids:
            allowed.append(tuple(sorted(node)))
            node = node[token]
        return tuple(allowed)

    def rest(self, prefix: Sequence[int]) -> tuple[int, ...] | None:
        """What must follow `prefix`, end token included; None while there is a choice."""
        node = self._root
        for token in prefix:
            node = node[token]
        tokens = []
        while len(node) == 1:
            ((token, node),) = node.items()
            tokens.append(token)
        return None if node else tuple(tokens)

    def command(self, action_ids: Sequence[int]) -> str | None:
        """The command that these tokens spell, end token included; None for a part of one."""
        return self._commands.get(tuple(action_ids))
