"""What makes two states equal: functions that name the states of trajectories.

Each is a function (trajectories, config) -> names, held in `STATE_KEYS`: for each trajectory
len(steps) + 1 names, one for the state before each step and one for the final state. Names are
compared within a task. The choice trades false neighbours against none at all: text that looks
alike may hide different states, and a key that holds the whole history is shared by nobody;
`gagpo.diagnostics` counts both.

A key of your own that looks at one trajectory at a time is a function (trajectory) -> names: give
it to `StepTable.from_trajectories`, or to the configuration as `STATE_KEYS["mine"] = each(mine)`.
An installed package adds one by an entry point of the group `gagpo.state_keys`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from gagpo.config import CreditConfig
from gagpo.plugins import load_plugin
from gagpo.similar import cluster_names
from gagpo.table import StepTable, Trajectory, recorded_state_keys

Names = Sequence[Sequence[str]]
StateKey = Callable[[Sequence[Trajectory], CreditConfig], Names]
PLUGINS = "gagpo.state_keys"


def each(key: Callable[[Trajectory], Sequence[str]]) -> StateKey:
    """The state key that asks `key` about one trajectory after the other."""
    return lambda trajectories, config: [key(trajectory) for trajectory in trajectories]


def observation_keys(trajectory: Trajectory) -> list[str]:
    """The observation's text as it is: the key of the paper."""
    return [*(step.observation for step in trajectory.steps), trajectory.final_observation]


def history_keys(trajectory: Trajectory, num_steps: int) -> list[str]:
    """The observation, after the observations and actions of the last `num_steps` steps.

    The parts are joined as a JSON list, so that no text can imitate a seam.
    """
    steps = trajectory.steps
    keys = []
    for t, observation in enumerate(observation_keys(trajectory)):
        past = steps[max(0, t - num_steps) : t]
        keys.append(json.dumps([[step.observation, step.action] for step in past] + [observation]))
    return keys


def normalized_keys(trajectory: Trajectory) -> list[str]:
    """The observation in lower case, each run of white space as one blank, digits kept."""
    return [" ".join(text.lower().split()) for text in observation_keys(trajectory)]


def similar_keys(trajectories: Sequence[Trajectory], config: CreditConfig) -> Names:
    """The cluster of the observation among those of its task, by `key_similarity`.

    See `gagpo.similar` for what a cluster is. Distinct texts of one task are compared, so a million
    rows cost what their tasks cost; a text that comes often costs no more than once.
    """
    texts: dict[str, set[str]] = {}
    for trajectory in trajectories:
        texts.setdefault(trajectory.task_id, set()).update(observation_keys(trajectory))
    names = {task: cluster_names(own, config.key_similarity) for task, own in texts.items()}
    return [[names[t.task_id][text] for text in observation_keys(t)] for t in trajectories]


STATE_KEYS: dict[str, StateKey] = {
    "exact": each(recorded_state_keys),
    "observation": each(observation_keys),
    "history": lambda trajectories, config: [history_keys(t, config.key_history) for t in trajectories],
    "normalized": each(normalized_keys),
    "similar": similar_keys,
}


def find_state_key(name: str) -> StateKey:
    """The state key of that name: one of STATE_KEYS, else one that an installed package adds."""
    return STATE_KEYS[name] if name in STATE_KEYS else load_plugin("state_key", name, PLUGINS, STATE_KEYS)


def keyed_table(trajectories: Sequence[Trajectory], config: CreditConfig) -> StepTable:
    """The columns of `trajectories`, with states as `config.state_key` tells them apart."""
    return StepTable.from_names(trajectories, find_state_key(config.state_key)(trajectories, config))
