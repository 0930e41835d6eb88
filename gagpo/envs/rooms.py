"""What generated houses are furnished with: rooms, what fits where, and what can be done with it."""

from __future__ import annotations

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})

# Receptacle types of each room, with the most there may be of each in a house of 40.
ROOMS: dict[str, dict[str, int]] = {
    "kitchen": {
        "cabinet": 14,
        "drawer": 9,
        "countertop": 3,
        "stoveburner": 4,
        "shelf": 4,
        "diningtable": 2,
        "sidetable": 2,
        "fridge": 1,
        "microwave": 1,
        "sinkbasin": 1,
        "coffeemachine": 1,
        "garbagecan": 1,
    },
    "bedroom": {
        "drawer": 14,
        "shelf": 10,
        "cabinet": 4,
        "sidetable": 4,
        "desk": 3,
        "dresser": 2,
        "bed": 2,
        "armchair": 2,
        "safe": 1,
        "laundryhamper": 1,
        "garbagecan": 1,
    },
    "bathroom": {
        "cabinet": 12,
        "drawer": 10,
        "shelf": 6,
        "towelholder": 3,
        "handtowelholder": 3,
        "countertop": 3,
        "sinkbasin": 2,
        "toiletpaperhanger": 1,
        "bathtubbasin": 1,
        "cart": 1,
        "toilet": 1,
        "garbagecan": 1,
    },
    "livingroom": {
        "drawer": 12,
        "shelf": 10,
        "cabinet": 6,
        "armchair": 4,
        "sidetable": 3,
        "coffeetable": 2,
        "sofa": 2,
        "diningtable": 1,
        "dresser": 1,
        "desk": 1,
        "ottoman": 1,
        "safe": 1,
        "garbagecan": 1,
    },
}

_FOOD = "apple bread egg lettuce potato tomato"
_DISHES = "bowl cup mug plate"
_PANS = "kettle pan pot"
_CUTLERY = "butterknife fork knife ladle spatula spoon"
_SHAKERS = "peppershaker saltshaker"
_POCKET = "cd cellphone creditcard keychain pen pencil watch"
_LARGE = "alarmclock book box laptop remotecontrol statue tissuebox vase"
_TOILETRY = "candle cloth soapbar soapbottle spraybottle toiletpaper"
_SOFT = "book box cellphone creditcard keychain laptop newspaper pillow remotecontrol"

# receptacle type -> object types that it takes
_FITS = {
    "armchair": _SOFT,
    "bathtubbasin": "cloth dishsponge handtowel soapbar",
    "bed": "baseballbat basketball book cellphone laptop pillow tennisracket",
    "cabinet": f"{_DISHES} {_PANS} {_SHAKERS} {_TOILETRY} book cd ladle newspaper vase",
    "cart": f"{_TOILETRY} dishsponge handtowel",
    "coffeemachine": "cup mug",
    "coffeetable": f"{_LARGE} {_POCKET} candle newspaper plate",
    "countertop": f"{_FOOD} {_DISHES} {_PANS} {_CUTLERY} {_SHAKERS} {_TOILETRY} dishsponge handtowel",
    "desk": f"{_LARGE} {_POCKET} bowl mug tennisracket desklamp",
    "diningtable": f"{_FOOD} {_DISHES} {_PANS} {_CUTLERY} {_SHAKERS} {_LARGE} {_POCKET} newspaper",
    "drawer": f"{_CUTLERY} {_SHAKERS} {_POCKET} book candle cloth newspaper remotecontrol soapbar tissuebox",
    "dresser": f"{_LARGE} {_POCKET} bowl mug newspaper spraybottle tennisracket desklamp",
    "fridge": f"{_FOOD} {_DISHES} pan pot winebottle",
    "garbagecan": f"{_FOOD} cd dishsponge newspaper pen pencil soapbar soapbottle tissuebox toiletpaper",
    "handtowelholder": "handtowel",
    "laundryhamper": "cloth",
    "microwave": "apple bowl bread cup egg mug plate potato tomato",
    "ottoman": _SOFT,
    "safe": "cd cellphone creditcard keychain statue vase watch",
    "shelf": f"{_DISHES} {_SHAKERS} {_LARGE} {_POCKET} {_TOILETRY} dishsponge handtowel winebottle",
    "sidetable": f"{_LARGE} {_POCKET} bowl candle cup mug newspaper plate tennisracket desklamp",
    "sinkbasin": f"{_DISHES} {_PANS} {_CUTLERY} apple cloth dishsponge egg lettuce potato soapbar tomato",
    "sofa": _SOFT,
    "stoveburner": _PANS,
    "toilet": f"{_TOILETRY} tissuebox",
    "toiletpaperhanger": "toiletpaper",
    "towelholder": "towel",
}
FITS: dict[str, frozenset[str]] = {place: frozenset(types.split()) for place, types in _FITS.items()}

# What each room's objects are drawn from, where some receptacle of the house takes them.
ROOM_OBJECTS: dict[str, tuple[str, ...]] = {
    "kitchen": tuple(
        f"{_FOOD} {_DISHES} {_PANS} {_CUTLERY} {_SHAKERS} dishsponge soapbottle winebottle".split()
    ),
    "bedroom": tuple(
        f"{_LARGE} {_POCKET} baseballbat basketball bowl cloth mug pillow tennisracket desklamp".split()
    ),
    "bathroom": tuple(f"{_TOILETRY} handtowel towel tissuebox dishsponge".split()),
    "livingroom": tuple(f"{_LARGE} {_POCKET} candle newspaper pillow plate desklamp".split()),
}

_ABLE = {
    "cleanable": f"{_DISHES} {_PANS} {_CUTLERY} apple cloth dishsponge egg lettuce potato soapbar tomato",
    "heatable": "apple bread cup egg mug plate potato tomato",
    "coolable": f"{_FOOD} {_DISHES} pan pot winebottle",
    "sliceable": _FOOD,
    "isreceptacleobject": f"{_DISHES} box pan pot",
    "toggleable": "desklamp",
}
FIXED = frozenset({"desklamp"})  # cannot be picked up
ABLE: dict[str, frozenset[str]] = {ability: frozenset(types.split()) for ability, types in _ABLE.items()}


def abilities(object_type: str) -> frozenset[str]:
    """What can be done with an object of this type."""
    able = {ability for ability, types in ABLE.items() if object_type in types}
    return frozenset(able if object_type in FIXED else able | {"pickupable"})
