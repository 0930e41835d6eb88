"""How a state is put into words for the policy, how a command is written, and how an answer is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# (observation, action) of earlier steps, the oldest first.
History = Sequence[tuple[str, str]]

# One long text in a batch (a help page, say) makes every row as wide as itself.
COMPACT_WORDS = 40

# A part of a command that is left to the policy, as in WebShop's "search[<words>]".
OPEN_PART = re.compile(r"<[^<>]+>")
THINK, ACTION = ("<think>", "</think>"), ("<action>", "</action>")
# Why `read_gigpo` finds no command in an answer; "cut off": what it opened is not closed.
NO_THINK, NO_ACTION, SEVERAL_ACTIONS = "no thinking", "no action", "several actions"
EMPTY_ACTION, CUT_OFF = "empty action", "cut off"


def no_fault(answer: str) -> str:
    """Any answer will do."""
    return ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A language between world and policy; `read` undoes `write`.

    state: (goal, history, observation, admissible commands, number of steps taken, which may be
        more than the history holds) -> what the policy is asked
    write: (goal, command) -> the command as the policy would answer it
    read: answer -> command, "" where it holds none
    fault: answer -> why `read` finds no command in it, "" where it finds one
    """

    state: Callable[[str, History, str, Sequence[str], int], str]
    write: Callable[[str, str], str]
    read: Callable[[str], str]
    fault: Callable[[str], str] = no_fault


def compact_state(
    goal: str, history: History, observation: str, admissible: Sequence[str], num_steps: int = 0
) -> str:
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


def instruct_state(
    goal: str, history: History, observation: str, admissible: Sequence[str], num_steps: int = 0
) -> str:
    """A request in full sentences, with observations of earlier steps and all commands."""
    lines = [f"You are an agent in a text world. Your task: {goal}"]
    if history:
        lines.append("Your last steps, the oldest first:")
        lines += [f"- You saw: {seen}\n  You did: {action}" for seen, action in history]
    lines += [f"Now you see: {observation}", "Commands that are possible now:"]
    lines += [f"- {command}" for command in admissible]
    lines.append("Answer with one of these commands, word for word, and nothing else.")
    return "\n".join(lines + open_parts(admissible))


def open_parts(admissible: Sequence[str]) -> list[str]:
    """A line that explains what stands in angle brackets, where a command holds some."""
    for command in admissible:
        if found := OPEN_PART.search(command):
            return [f"In place of {found[0]} write words of your own, without the brackets < and >."]
    return []


def unchanged(goal: str, command: str) -> str:
    """The command as the world has it."""
    return command


def first_line(answer: str) -> str:
    """The first line of an answer that is not empty, without a list dash."""
    for line in answer.splitlines():
        if line.strip():
            return line.strip().removeprefix("- ").strip()
    return ""


def gigpo_state(
    goal: str, history: History, observation: str, admissible: Sequence[str], num_steps: int
) -> str:
    """The protocol of GiGPO's experiments (arXiv 2505.10978), in our words: task, number of steps,
    the last steps, what is seen, the commands, and the order to think first and act then."""
    lines = ["You act in a world that answers you in text.", f"Your task: {goal}"]
    if num_steps:
        taken = "1 step" if num_steps == 1 else f"{num_steps} steps"
        lines.append(f"So far you have taken {taken}.")
    if history:
        lines.append("The most recent observations and the actions that you took there:")
        for number, (seen, action) in enumerate(history, num_steps - len(history) + 1):
            lines += [f"[Observation {number}] {seen}", f"[Action {number}] {action}"]
    lines += [f"You are now at step {num_steps + 1}.", f"[Observation {num_steps + 1}] {observation}"]
    lines += ["Admissible actions:", *(f"- {command}" for command in admissible), *open_parts(admissible)]
    lines += [
        f"First think about your situation step by step, between {THINK[0]} and {THINK[1]}.",
        f"Then give exactly one admissible action, between {ACTION[0]} and {ACTION[1]}.",
    ]
    return "\n".join(lines)


def write_gigpo(goal: str, command: str) -> str:
    """The command as an answer without a thought: a planner has none to show."""
    return f"{THINK[0]}\n{THINK[1]}\n{ACTION[0]}{command}{ACTION[1]}"


def read_gigpo(answer: str) -> str:
    """The one action that follows the thought; "" where `gigpo_fault` finds a fault."""
    return "" if gigpo_fault(answer) else _acted(answer)


def gigpo_fault(answer: str) -> str:
    """Why an answer holds no command, else "".

    An answer has to think before it acts, to end its thought, and to hold one action after that.
    What the thought says is free, tags of actions included; text around the tags does no harm.
    """
    before, thinks, rest = answer.partition(THINK[0])
    if not thinks or ACTION[0] in before:
        return NO_THINK
    _, has_thought, after = rest.partition(THINK[1])
    if not has_thought or after.rfind(ACTION[0]) > after.rfind(ACTION[1]):
        return CUT_OFF
    num_actions = after.count(ACTION[0])
    if num_actions != 1:
        return SEVERAL_ACTIONS if num_actions else NO_ACTION
    return "" if _acted(answer) else EMPTY_ACTION


def _acted(answer: str) -> str:
    """What stands in the first action tags after the first thought."""
    after = answer.partition(THINK[0])[2].partition(THINK[1])[2]
    return after.partition(ACTION[0])[2].partition(ACTION[1])[0].strip()


PROMPTS = {
    "compact": Prompt(compact_state, with_stars, without_stars),
    "instruct": Prompt(instruct_state, unchanged, first_line),
    "gigpo": Prompt(gigpo_state, write_gigpo, read_gigpo, gigpo_fault),
}


def check_spelling(prompt: str, tokenizer: Any) -> None:
    """Raises ValueError where a tokenizer of transformers would lose what an answer needs: tags
    that it does not know, or drops as special tokens."""
    ids = tokenizer(PROMPTS[prompt].write("", "look"), add_special_tokens=False)["input_ids"]
    answer = tokenizer.decode(ids, skip_special_tokens=True)
    if fault := PROMPTS[prompt].fault(answer):
        raise ValueError(
            f"prompt: {prompt!r}; the model's tokenizer cannot write such answers: "
            f"it makes {answer!r} of one ({fault})"
        )
