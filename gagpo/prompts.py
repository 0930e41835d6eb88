"""How a state is put into words for the policy, and how its answer is read as a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# (observation, action) of earlier steps, the oldest first.
History = Sequence[tuple[str, str]]

# One long text in a batch (a help page, say) makes every row as wide as itself.
COMPACT_WORDS = 60


def compact(goal: str, history: History, observation: str, admissible: Sequence[str]) -> str:
    """A few words for a small model: goal, earlier commands (each where it was given last), the
    first COMPACT_WORDS words seen.

    A thing that the goal names (a word before a number, as in "egg 1") gets a star before it: to
    compare words takes a small model hundreds of updates to learn. No admissible commands are
    listed: the prompt is meant for masked decoding, which shows them.
    """
    names = {word.strip(".,").lower() for word in goal.split()}
    last = dict.fromkeys(action for _, action in reversed(history))
    did = " ; ".join(_starred(action, names) for action in reversed(last))
    seen = _starred(" ".join(observation.split()[:COMPACT_WORDS]), names)
    return f"goal : {goal}\ndid : {did}\nsee : {seen}\nact :"


def _starred(text: str, names: set[str]) -> str:
    words = text.split()
    return " ".join(
        f"* {word}" if word.lower() in names and after[:1].isdigit() else word
        for word, after in zip(words, [*words[1:], ""], strict=False)
    )


def instruct(goal: str, history: History, observation: str, admissible: Sequence[str]) -> str:
    """A request in full sentences, with observations of earlier steps and all commands."""
    lines = [f"You are an agent in a text world. Your task: {goal}"]
    if history:
        lines.append("Your last steps, the oldest first:")
        lines += [f"- You saw: {seen}\n  You did: {action}" for seen, action in history]
    lines += [f"Now you see: {observation}", "Commands that are possible now:"]
    lines += [f"- {command}" for command in admissible]
    lines.append("Answer with one of these commands, word for word, and nothing else.")
    return "\n".join(lines)


PROMPTS: dict[str, Callable[[str, History, str, Sequence[str]], str]] = {
    "compact": compact,
    "instruct": instruct,
}


def read_action(text: str) -> str:
    """The command in a model's answer: its first line that is not empty, without a list dash."""
    for line in text.splitlines():
        if line.strip():
            return line.strip().removeprefix("- ").strip()
    return ""
