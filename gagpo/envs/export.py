"""Writes problems as game folders in ALFWorld's layout, which this package and TextWorld can play.

A folder is <root>/<split>/<task>/<trial> with game.tw-pddl and traj_data.json, as in the official
json_2.1.1. The game file is complete: TextWorld needs nothing else. Of traj_data.json only what
ALFWorld asks of a game is written: there is no scene, no picture and no recorded plan behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from gagpo.envs import planner, tw_pddl
from gagpo.envs.official import GAME_FILE, TRIAL_FILE
from gagpo.envs.pddl import CONDITION_FACTS
from gagpo.envs.problem import CONDITIONS, Goal, Problem
from gagpo.envs.rules import Rules

# Longer names than TextWorld's planner has room for would be cut there.
_ID = re.compile(r"[a-z][a-z0-9_]{0,199}")
_SPLIT = re.compile(r"\w[\w.-]*", re.ASCII)
AGENT = "agent1"


def export_game(problem: Problem, root: Path | str, split: str = "train") -> Path:
    """Write one game; returns its folder, whose name is made of the game's content.

    Raises ValueError for a split that is no plain folder name, for a problem that is won already
    or cannot be, and for ids or a sentence that are not plain words."""
    if not _SPLIT.fullmatch(split):
        raise ValueError(f"split: {split!r}; expected a plain folder name")
    rules = Rules(problem)
    plan = planner.plan(rules, rules.start)
    if not plan:
        fault = "has no plan" if plan is None else "is won before it begins"
        raise ValueError(f"problem: {problem.sentence!r} {fault}; only games that can be played are written")
    text = problem_text(problem)
    game = {
        "pddl_domain": tw_pddl.domain(),
        "grammar": tw_pddl.grammar(problem.sentence),
        "pddl_problem": text,
        "solvable": True,
        "walkthrough": list(problem.walkthrough) or plan,
    }
    goal = problem.goal
    trial = f"trial_{blake2b((text + problem.sentence).encode(), digest_size=8).hexdigest()}"
    end = goal.receptacle_type or goal.lamp_type or ""
    task = f"{goal.task_type}-{_type_word(goal.object_type)}-None-{_type_word(end)}-0"
    folder = Path(root).expanduser() / split / task / trial
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GAME_FILE).write_text(json.dumps(game), "utf-8")
    (folder / TRIAL_FILE).write_text(json.dumps(_trial(problem, trial)), "utf-8")
    return folder


def problem_text(problem: Problem) -> str:
    """The problem in PDDL, as `gagpo.envs.pddl.read_problem` reads it.

    What can contain what is only written for types that occur here."""
    facts = [
        ("atLocation", AGENT, problem.start),
        *(("receptacleType", r.id, f"{r.type}Type") for r in problem.receptacles if r.type),
        *(("receptacleAtLocation", r.id, r.location) for r in problem.receptacles if r.location),
        *(("openable", r.id) for r in problem.receptacles if r.openable),
        *(("opened", r) for r in problem.opened),
        *(("objectType", o.id, f"{o.type}Type") for o in problem.objects if o.type),
        *((ability, o.id) for o in problem.objects for ability in o.abilities),
        *(("inReceptacle", o, r) for o, r in problem.inside),
        *(("objectAtLocation", o, place) for o, place in problem.nearby),
        *(("inReceptacleObject", inner, outer) for inner, outer in problem.contents),
        *((_FACT_OF[condition], o) for condition, o in problem.conditions),
        *(("canContain", f"{r}Type", f"{o}Type") for r, o in _fitting(problem)),
    ]
    lines = (f"    ({' '.join(fact)})" for fact in sorted(set(facts)))
    return (
        f"(define (problem household) (:domain alfred)\n  (:objects\n    {_objects(problem, facts)})\n"
        "  (:init\n" + "\n".join(lines) + f")\n  (:goal {goal_text(problem.goal)}))\n"
    )


_FACT_OF = {name: fact for fact, name in CONDITION_FACTS.items()}


def _fitting(problem: Problem) -> Iterable[tuple[str, str]]:
    receptacles = {r.type for r in problem.receptacles}
    objects = {o.type for o in problem.objects}
    return ((r, o) for r, o in problem.can_contain if r in receptacles and o in objects)


def _objects(problem: Problem, facts: Iterable[tuple[str, ...]]) -> str:
    """Every name with its kind."""
    goal = problem.goal
    places = {r.location for r in problem.receptacles if r.location}
    places |= {problem.start, *(place for _, place in problem.nearby)}
    receptacle_types = {r.type for r in problem.receptacles if r.type} | {*tw_pddl.RECEPTACLE_TYPES}
    receptacle_types |= {goal.receptacle_type} if goal.receptacle_type else set()
    object_types = {o.type for o in problem.objects if o.type} | {*tw_pddl.OBJECT_TYPES, goal.object_type}
    object_types |= {goal.lamp_type} if goal.lamp_type else set()
    kinds = {
        "agent": {AGENT},
        "location": places,
        "receptacle": {r.id for r in problem.receptacles},
        "object": {o.id for o in problem.objects},
        "rtype": {f"{type}Type" for type in receptacle_types},
        "otype": {f"{type}Type" for type in object_types - receptacle_types},
    }
    for kind, names in kinds.items():
        for name in names:
            if not _ID.fullmatch(name.lower()):
                raise ValueError(f"{kind}: {name[:80]!r}; expected letters, digits and _, at most 200")
    return "\n    ".join(f"{' '.join(sorted(names))} - {kind}" for kind, names in kinds.items() if names)


def goal_text(goal: Goal) -> str:
    """The goal in PDDL, in the shape that its task type has."""
    thing = f"(objectType ?o {goal.object_type}Type)"
    if goal.lamp_type is not None:
        return (
            "(and (exists (?lamp - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?lamp {goal.lamp_type}Type) (toggleable ?lamp) (isToggled ?lamp) "
            "(inReceptacle ?lamp ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l))) "
            f"(exists (?o - object ?a - agent) (and {thing} (holds ?a ?o))))"
        )
    place = f"(receptacleType ?r {goal.receptacle_type}Type)"
    lies = f"{thing} (inReceptacle ?o ?r)"
    if goal.condition is not None:
        lies += f" ({CONDITIONS[goal.condition]} ?o) ({_FACT_OF[goal.condition]} ?o)"
    if goal.count == 2:
        other = lies.replace("?o", "?other")
        lies += f" (exists (?other - object) (and {other} (not (= ?o ?other))))"
    return f"(exists (?r - receptacle) (and {place} (exists (?o - object) (and {lies}))))"


def _trial(problem: Problem, trial: str) -> dict[str, object]:
    goal = problem.goal
    return {
        "task_id": trial,
        "task_type": goal.task_type,
        "pddl_params": {
            "object_target": _type_word(goal.object_type),
            "parent_target": _type_word(goal.receptacle_type or ""),
            "toggle_target": _type_word(goal.lamp_type or ""),
            "mrecep_target": "",
            "object_sliced": False,
        },
        "turk_annotations": {"anns": [{"task_desc": problem.sentence, "high_descs": []}]},
    }


def _type_word(type: str) -> str:
    """A type as folders and traj_data write it; ALFWorld's inner capitals are not known here."""
    return type[:1].upper() + type[1:]
