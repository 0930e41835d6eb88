"""The rollout graph: the states of each group, and the steps that lead from one to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gagpo.credit.groups import Anchors, group_numbers
from gagpo.table import StepTable

NARROW = 64  # fewer states than this are followed one by one, more of them by arrays


@dataclass(frozen=True, slots=True, eq=False)
class RolloutGraph:
    """States as nodes 0 ... num_nodes - 1; groups share none. Nodes below len(Anchors.size) are
    its anchor groups, the others final states that no step of the group was taken in.

    source     (S,) int64  the node of each step's state
    target     (S,) int64  the node that the step led to
    final      (T,) int64  the node of each trajectory's final state
    """

    source: np.ndarray
    target: np.ndarray
    final: np.ndarray
    num_nodes: int


def rollout_graph(table: StepTable, anchors: Anchors) -> RolloutGraph:
    """Nodes and edges of all groups; parallel edges are kept."""
    _, state = np.unique(table.final_state, return_inverse=True)
    _, unseen = np.unique(group_numbers(table) * (state.max() + 1) + state, return_inverse=True)
    num_seen = len(anchors.size)
    final = np.where(anchors.final >= 0, anchors.final, num_seen + unseen)
    target = np.append(anchors.index[1:], 0)
    target[table.offsets[1:] - 1] = final
    return RolloutGraph(anchors.index, target, final, num_seen + int(unseen.max()) + 1)


def branching(graph: RolloutGraph) -> np.ndarray:
    """(num_nodes,) bool, the states that steps led from to two or more different states."""
    least = np.full(graph.num_nodes, graph.num_nodes)
    most = np.full(graph.num_nodes, -1)
    np.minimum.at(least, graph.source, graph.target)
    np.maximum.at(most, graph.source, graph.target)
    return most > least


def distances(graph: RolloutGraph, goals: np.ndarray) -> np.ndarray:
    """(num_nodes,) int64, steps of the shortest path to any of the nodes `goals`; -1 without one.

    Breadth first against the edges, O(nodes + edges): wide levels at once, narrow ones state by
    state, so that neither many groups nor one very long path is slow.
    """
    edges = np.argsort(graph.target, kind="stable")
    before = graph.source[edges]
    start = np.concatenate([[0], np.cumsum(np.bincount(graph.target, minlength=graph.num_nodes))])
    distance, last = np.full((2, graph.num_nodes), -1)
    level, depth = np.unique(goals), 0
    distance[level] = 0
    # Views whose single items are quick to read and write, of the very same arrays.
    sources, starts, found = memoryview(before), memoryview(start), memoryview(distance)
    while len(level):
        if len(level) < NARROW:
            level, depth = _one_by_one(list(level), depth, sources, starts, found)
            continue
        depth += 1
        level = np.asarray(level)
        count = start[level + 1] - start[level]
        first = np.repeat(start[level] - (np.cumsum(count) - count), count)
        reached = before[first + np.arange(len(first))]
        reached = reached[distance[reached] < 0]
        distance[reached] = depth
        last[reached] = np.arange(len(reached))
        level = reached[last[reached] == np.arange(len(reached))]  # each state once
    return distance


def _one_by_one(
    level: list[int], depth: int, sources: memoryview, starts: memoryview, found: memoryview
) -> tuple[list[int], int]:
    """Go on from the nodes of `level`, at `depth`, until there are none, or NARROW of them."""
    while 0 < len(level) < NARROW:
        depth += 1
        reached = []
        for node in level:
            for edge in range(starts[node], starts[node + 1]):
                source = sources[edge]
                if found[source] < 0:
                    found[source] = depth
                    reached.append(source)
        level = reached
    return level, depth
