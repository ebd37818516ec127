"""The relay tree that the lab's bound and floor speak of: pure, the same shape as protocol/placement.h makes.

Daemons choose an order of regions per bundle by rendezvous; the best tree is the order whose last region has the
shortest way from the trainer.
"""

from dataclasses import dataclass
from itertools import permutations

TRAINER = -1
MOST_REGIONS = 7  # permutations of more are not tried; their given order is taken


@dataclass(frozen=True)
class Tree:
    order: tuple   # indices of regions that have nodes
    parent: tuple  # position in order, or TRAINER

    def edges(self):
        """(from, to) as indices of regions; the trainer is region 0."""
        return [(0 if up == TRAINER else self.order[up], region) for region, up in zip(self.order, self.parent)]

    def path(self, position):
        """Positions from the trainer's child down to this one."""
        steps = [position]
        while self.parent[steps[0]] != TRAINER:
            steps.insert(0, self.parent[steps[0]])
        return steps


def shaped(order, root_children, fan_out):
    root = max(root_children, 1)
    parent = [TRAINER if i < root or fan_out == 0 else (i - root) // fan_out for i in range(len(order))]
    return Tree(tuple(order), tuple(parent))


def path_delay_us(scenario, tree, position):
    edges = tree.edges()
    return sum(scenario.delay_us(*edges[step]) for step in tree.path(position))


def longest_us(scenario, tree):
    return max((path_delay_us(scenario, tree, p) for p in range(len(tree.order))), default=0)


def best(scenario, root_children=1, fan_out=1):
    with_nodes = [i for i, region in enumerate(scenario.regions) if region.nodes > 0 and not region.joins_at_seconds]
    home, away = [i for i in with_nodes if i == 0], [i for i in with_nodes if i != 0]
    orders = permutations(away) if len(away) <= MOST_REGIONS else [away]
    trees = [shaped(home + list(order), root_children, fan_out) for order in orders]
    return min(trees, key=lambda tree: (longest_us(scenario, tree), tree.order))


def wan_edges(tree):
    return [edge for edge in tree.edges() if edge[0] != edge[1]]
