"""Houses with everything that official data has now and then, and that generated houses lack."""

from __future__ import annotations

import dataclasses
import random

from gagpo.envs.houses import generate
from gagpo.envs.problem import TASK_TYPES, Item, Problem, readable_names
from gagpo.envs.rooms import abilities


def odd_house(seed: int, num_receptacles: int = 6, num_objects: int = 6) -> Problem:
    """A house with receptacles at one location or out of reach, open doors, objects in two
    receptacles or in none or inside each other, facts that fit together badly, and knives."""
    rng = random.Random(seed)
    problem = generate(rng.choice(TASK_TYPES), rng, num_receptacles, num_objects)

    def some(pairs: list, share: float) -> list:
        return [pair for pair in pairs if rng.random() < share]

    locations = [r.location for r in problem.receptacles]
    receptacles = tuple(
        dataclasses.replace(
            r,
            location=rng.choice([r.location] * 6 + locations + [None]),
            openable=rng.random() < 0.2 if rng.random() < 0.3 else r.openable,
            type=rng.choice([r.type] * 12 + ["sink", "microwave", "fridge", None]),
        )
        for r in problem.receptacles
    )
    knives = ["knife", "butterknife"]
    more = [Item(f"{type}_bar_99", type, abilities(type)) for type in (*knives, "mug", "tomato")]
    odd = ("sliceable", "toggleable", "isreceptacleobject", "heatable", "coolable", "cleanable", "pickupable")
    objects = tuple(
        dataclasses.replace(
            o,
            abilities=o.abilities ^ set(some(list(odd), 0.06)),
            type=rng.choice([o.type] * 12 + [*knives, None]),
        )
        for o in (*problem.objects, *more)
    )
    # A receptacle that no fact tells of is not there for a reader.
    receptacles = tuple(
        r if r.type else dataclasses.replace(r, location=r.location or locations[0]) for r in receptacles
    )
    ids, places = [o.id for o in objects], [r.id for r in receptacles]
    start = rng.choice([problem.start, problem.start, *filter(None, locations)])
    house = dataclasses.replace(
        problem,
        receptacles=tuple(sorted(receptacles, key=lambda r: r.id)),
        objects=tuple(sorted(objects, key=lambda o: o.id)),
        start=start,
        inside=problem.inside | {(o, rng.choice(places)) for o in [*(o.id for o in more), *some(ids, 0.2)]},
        nearby=frozenset(some(sorted(problem.nearby), 0.9))
        | {(o, rng.choice([*filter(None, locations), "loc_bar_77"])) for o in some(ids, 0.3)},
        contents=frozenset((rng.choice(ids), outer) for outer in some(ids, 0.3)),
        opened=frozenset(some(places, 0.3)),
        conditions=frozenset(
            some([(c, o) for c in ("clean", "hot", "cool", "toggled", "sliced") for o in ids], 0.12)
        ),
    )
    located = {house.start, *(p for _, p in house.nearby), *(r.location for r in receptacles if r.location)}
    return dataclasses.replace(house, names=readable_names([*ids, *places, *located]))
