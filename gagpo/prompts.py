"""How a state is put into words for the policy, how a command is written, and how an answer is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# (observation, action) of earlier steps, the oldest first.
History = Sequence[tuple[str, str]]

# One long text in a batch (a help page, say) makes every row as wide as itself.
COMPACT_WORDS = 40


@dataclass(frozen=True, slots=True)
class Prompt:
    """A language between world and policy; `read` undoes `write`.

    state: (goal, history, observation, admissible commands) -> what the policy is asked
    write: (goal, command) -> the command as the policy would answer it
    read: answer -> command
    """

    state: Callable[[str, History, str, Sequence[str]], str]
    write: Callable[[str, str], str]
    read: Callable[[str], str]


def compact_state(goal: str, history: History, observation: str, admissible: Sequence[str]) -> str:
    """A few words for a small model: goal, earlier commands (each where it was given last), the
    first COMPACT_WORDS words seen.

    No admissible commands are listed: the prompt is meant for masked decoding, which shows them.
    """
    last = dict.fromkeys(action for _, action in reversed(history))
    did = " ; ".join(with_stars(goal, action) for action in reversed(last))
    seen = with_stars(goal, " ".join(observation.split()[:COMPACT_WORDS]))
    return f"goal : {goal}\ndid : {did}\nsee : {seen}\nact :"


def with_stars(goal: str, text: str) -> str:
    """`text` with a star before each thing that the goal names (a word before a number, as in "egg 1").

    To find which of the things it sees has the name that it was told is beyond a small model after
    hundreds of updates; with stars it need not compare.
    """
    names = {word.strip(".,").lower() for word in goal.split()}
    words = text.split()
    return " ".join(
        f"* {word}" if word.lower() in names and after[:1].isdigit() else word
        for word, after in zip(words, [*words[1:], ""], strict=False)
    )


def without_stars(answer: str) -> str:
    """The command in an answer in the words of `with_stars`."""
    return " ".join(word for word in first_line(answer).split() if word != "*")


def instruct_state(goal: str, history: History, observation: str, admissible: Sequence[str]) -> str:
    """A request in full sentences, with observations of earlier steps and all commands."""
    lines = [f"You are an agent in a text world. Your task: {goal}"]
    if history:
        lines.append("Your last steps, the oldest first:")
        lines += [f"- You saw: {seen}\n  You did: {action}" for seen, action in history]
    lines += [f"Now you see: {observation}", "Commands that are possible now:"]
    lines += [f"- {command}" for command in admissible]
    lines.append("Answer with one of these commands, word for word, and nothing else.")
    return "\n".join(lines)


def unchanged(goal: str, command: str) -> str:
    """The command as the world has it."""
    return command


def first_line(answer: str) -> str:
    """The first line of an answer that is not empty, without a list dash."""
    for line in answer.splitlines():
        if line.strip():
            return line.strip().removeprefix("- ").strip()
    return ""


PROMPTS = {
    "compact": Prompt(compact_state, with_stars, without_stars),
    "instruct": Prompt(instruct_state, unchanged, first_line),
}
