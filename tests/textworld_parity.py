"""Plays our games and TextWorld's side by side and counts what differs.

    python tests/textworld_parity.py FOLDER PACKED TRACES [--steps N] [--write docs/alfworld_parity.md]

FOLDER holds official games with their game files, PACKED the problems of many, TRACES recordings of
TextWorld with its own planning library. Needs TextWorld (`pip install textworld`).
"""

from __future__ import annotations

import argparse
import json
import lzma
import platform
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import textworld_standin
from odd_houses import odd_house

from gagpo.envs import tw_pddl
from gagpo.envs.export import problem_text
from gagpo.envs.game import Game
from gagpo.envs.houses import generate
from gagpo.envs.official import find_games
from gagpo.envs.pddl import read_problem
from gagpo.envs.problem import TASK_TYPES, Problem
from gagpo.envs.rules import Rules
from gagpo.envs.wording import TASK_PREFIX

# Commands that seldom come up by chance and have the oddest rules are tried more often.
WEIGHTS = {"take": 8, "move": 6, "open": 8, "slice": 8, "use": 4, "clean": 3, "heat": 3, "cool": 3, "look": 4}
GARBAGE_SHARE = 0.25


@dataclass
class Tally:
    """What was compared: after each step the text, the admissible commands, and whether it is won."""

    games: int = 0
    steps: int = 0
    garbage: int = 0
    hopeless: int = 0
    mismatches: list[str] = field(default_factory=list)
    verbs: dict[str, int] = field(default_factory=dict)


def garbage(rng: random.Random, admissible: tuple[str, ...]) -> str:
    """Something that is probably no command. "put X in/on Y" is left out: we take it, on purpose."""
    words = rng.choice(admissible).split()
    i = rng.randrange(len(words))
    others = rng.choice(admissible).split()
    return rng.choice(
        (
            " ".join(words[:i]),
            " ".join(words).upper(),
            " ".join([*words[:i], rng.choice(others), *words[i + 1 :]]),
            " ".join([*words, rng.choice(others)]),
            "  ".join(words) if len(words) > 1 else "look around",
            f"\t{' '.join(words)} \n",  # the space around a command is no fault
            f"examine {words[-2]} {words[-1]}" if len(words) > 2 else "examine",
            rng.choice(("", "dance", "go to", "take", "{1/0}", "#intro#", "[x | y]", "é" * 9, "x" * 5000)),
        )
    )


def play(ours: Game, theirs: Any, rng: random.Random, num_steps: int, tally: Tally) -> None:
    """One random game; it stops at the goal, at the first difference, or after `num_steps`."""
    state, (observation, info) = theirs.reset(), ours.reset()
    command = "reset"
    tally.games += 1
    for _ in range(num_steps + 1):
        here = (observation, list(ours.admissible()), info["won"])
        there = (state.feedback, list(state["admissible_commands"]), bool(state["won"]))
        if here != there:
            tally.mismatches.append(f"{ours.task_id}: {command!r}: {here} != {there}")
        if here != there or info["won"]:
            return
        command = garbage(rng, ours.admissible())
        if rng.random() >= GARBAGE_SHARE:
            weights = [WEIGHTS.get(command.split()[0], 1) for command in ours.admissible()]
            [command] = rng.choices(ours.admissible(), weights)
        observation, _, _, _, info = ours.step(command)
        state, _, _ = theirs.step(command)
        tally.steps += 1
        tally.garbage += not info["valid"]
        verb = command.split()[0] if info["valid"] else "not admissible"
        tally.verbs[verb] = tally.verbs.get(verb, 0) + 1


def replay(theirs: Any, trace: dict[str, Any], tally: Tally) -> None:
    """A recorded trace against TextWorld as it stands here: proves the stand-in, not our rules."""
    tally.games += 1
    for command, observation, admissible, won in trace["steps"]:
        state = theirs.reset() if command is None else theirs.step(command)[0]
        tally.steps += command is not None
        if (state.feedback, state["admissible_commands"], bool(state["won"])) != (
            observation,
            admissible,
            won,
        ):
            tally.mismatches.append(f"{trace['id']}: {command!r}")


def ours_of(problem: Problem, name: str) -> Game:
    return Game(Rules(problem), name, max_steps=1_000_000, success_reward=1.0)


def exported(problem: Problem) -> dict[str, Any]:
    """A game with our own domain and grammar."""
    grammar = tw_pddl.grammar(problem.sentence)
    return {"pddl_domain": tw_pddl.domain(), "grammar": grammar, "pddl_problem": problem_text(problem)}


def with_texts_of(game: dict[str, Any], problem: str, sentence: str) -> dict[str, Any]:
    """A game of another problem with the domain and grammar of an official game."""
    before, _, rest = game["grammar"].partition(TASK_PREFIX)
    grammar = before + TASK_PREFIX + sentence + rest[rest.index('"') :]
    return game | {"grammar": grammar, "pddl_problem": problem}


Pair = tuple[Game, dict[str, Any]]


def generated_games(seed: int) -> Iterator[Pair]:
    rng = random.Random(seed)
    while True:
        task_type = rng.choice(TASK_TYPES)
        problem = generate(task_type, rng, *rng.choice(((4, 2), (8, 6), (10, 12))))
        yield ours_of(problem, f"generated {task_type}"), exported(problem)


def odd_games(seed: int, official: dict[str, Any] | None) -> Iterator[Pair]:
    """With our own domain and grammar, or with those of an official game."""
    while True:
        problem = odd_house(seed)
        text = problem_text(problem)
        game = with_texts_of(official, text, problem.sentence) if official else exported(problem)
        yield ours_of(problem, f"odd house {seed}"), game
        seed += 1


def official_games(packed: list[dict[str, Any]], official: dict[str, Any]) -> Iterator[Pair]:
    while True:
        for entry in packed:
            sentence = f"{entry['goal']}."
            problem = read_problem(entry["pddl_problem"], sentence)
            yield ours_of(problem, entry["id"]), with_texts_of(official, entry["pddl_problem"], sentence)


def folder_games(folder: Path) -> Iterator[Pair]:
    """Each game file as it lies there, with its own domain and grammar, over and over."""
    sources = find_games(folder, "folder", Counter())
    while True:
        for source in sources.values():
            game = source.read()
            problem = read_problem(game.pddl_problem, game.sentence, game.walkthrough)
            yield ours_of(problem, source.task_id), json.loads(source.source.read_text("utf-8"))


def compare(games: Iterator[Pair], num_steps: int, rng: random.Random, steps_of_a_game: int = 40) -> Tally:
    """Games until `num_steps` steps have been compared."""
    tally = Tally()
    while tally.steps < num_steps:
        ours, game = next(games)
        try:
            theirs = textworld_standin.load(game)
        except KeyError as error:
            # The planning library has replaced a game that cannot be won (or is won) by an empty one,
            # in terms that TextWorld does not know. Our planner has to agree.
            if error.args != ("val1",):
                raise
            tally.hopeless += 1
            if ours.plan():
                tally.mismatches.append(f"{ours.task_id}: a plan, and TextWorld's library has none")
            continue
        play(ours, theirs, rng, steps_of_a_game, tally)
    return tally


def read_official(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.rglob("game.tw-pddl"))]


def read_packed(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path) as file:
        return json.load(file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("folder", "packed", "traces"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--steps", type=int, default=2000, help="steps of each kind of game")
    parser.add_argument("--write", type=Path, help="file for the table")
    args = parser.parse_args()
    command, out = shlex.join(map(_shown, sys.argv)), sys.stdout  # the planning library replaces both
    standin = textworld_standin.install()
    official = read_official(args.folder)[0]
    packed, traces = map(read_packed, (args.packed, args.traces))
    random.Random(0).shuffle(packed)
    problems = {entry["id"]: entry for entry in packed}

    def recorded() -> Tally:
        tally = Tally()
        for trace in traces:
            entry = problems[trace["id"]]
            game = with_texts_of(official, entry["pddl_problem"], f"{entry['goal']}.")
            replay(textworld_standin.load(game), trace, tally)
        return tally

    kinds: dict[str, Callable[[], Tally]] = {
        "official games, folder": lambda: compare(folder_games(args.folder), args.steps, random.Random(5)),
        "official games, packed": lambda: compare(
            official_games(packed, official), args.steps, random.Random(1)
        ),
        "generated houses, exported": lambda: compare(generated_games(2), args.steps, random.Random(2)),
        "odd houses, exported": lambda: compare(odd_games(10_000, None), args.steps, random.Random(3)),
        "odd houses, official domain and grammar": lambda: compare(
            odd_games(20_000, official), args.steps, random.Random(4)
        ),
        "recorded traces, on TextWorld as it stands here": recorded,
    }
    report = []
    for name, run in kinds.items():
        start = time.perf_counter()
        tally = run()
        seconds = time.perf_counter() - start
        report.append((name, tally, seconds))
        print(
            f"{name}: {tally.games} games, {tally.steps} steps, {len(tally.mismatches)} mismatches",
            file=out,
            flush=True,
        )
        print("\n".join(tally.mismatches[:3])[:3000], file=out, flush=True)
        if args.write:  # after each kind, so that a run that is cut short leaves what it has
            args.write.write_text(page(report, standin, command), "utf-8")


def _shown(argument: str) -> str:
    """An argument without the folders that only this machine has."""
    return argument if argument.startswith("tests/") or "/" not in argument else Path(argument).name


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def page(report: list[tuple[str, Tally, float]], standin: bool, command: str) -> str:
    """The report as a page of documentation."""
    packages = ("textworld", "fast-downward-textworld")
    versions = ", ".join(f"{package} {_version(package)}" for package in packages)
    planner = (
        "TextWorld's planning library was not installed. Its place was taken by a general reading of PDDL\n"
        "(`tests/pddl_reference.py`), which gets the rules from the domain text in each game file. The\n"
        "last row shows that TextWorld with this stand-in repeats the traces that were recorded from\n"
        "TextWorld with its own library. Texts, names and the order of commands are TextWorld's own."
        if standin
        else "Nothing was a stand-in: TextWorld ran with its own planning library. The games of the folder\n"
        "are the release's as they are; the packed ones hold the release's problems, with the domain and\n"
        "the grammar of one game of the folder. The other houses are our own."
    )
    rows = "\n".join(
        f"| {name} | {t.games:,} | {t.hopeless:,} | {t.steps:,} | {t.garbage:,} | {len(t.mismatches)} "
        f"| {t.steps / seconds:,.0f} |"
        for name, t, seconds in report
    )
    verbs: dict[str, int] = {}
    for _, tally, _ in report:
        for verb, count in tally.verbs.items():
            verbs[verb] = verbs.get(verb, 0) + count
    played = ", ".join(f"{verb} {count:,}" for verb, count in sorted(verbs.items(), key=lambda v: -v[1]))
    return f"""# Our households beside TextWorld

Written by `tests/textworld_parity.py`; do not edit. Each step compares the text, the list of admissible
commands, and whether the goal holds; a mismatch is a step in which any of the three differs. About a
quarter of the commands are garbage: cut, in capitals, with other words, with too much space, empty,
or 5,000 letters long.

    python {command}

Versions: {versions}, Python {platform.python_version()}.

{planner}

| games | played | cannot be won | steps | not admissible | mismatches | steps a second, both together |
|---|---|---|---|---|---|---|
{rows}

Games that cannot be won are not played where TextWorld has its own planning library, which proves it and
which TextWorld then cannot load; that our planner finds no plan either is checked instead.

Odd houses have what official data has now and then: receptacles at one location or out of reach, open
doors, objects in two receptacles or inside each other, knives everywhere, facts that fit together badly.

Commands played, without those of the recorded traces: {played}.
"""


if __name__ == "__main__":
    main()
