"""Bound and floor of a run, from bare TCP on the same network in the same run.

bound: all bytes at the rate that bare TCP reaches on every edge of the best relay tree at once (never more than was
asked), plus the one-way delays on the way to the last region. floor: the same bytes over four warm connections on the
tree's slowest edge, plus the other edges' delays.
"""

from dataclasses import dataclass

from . import tree as trees
from .netem import FULL_PACKET, FULL_PAYLOAD

CONNECTIONS = 4
WARM_ROUND_TRIPS = 20   # of the longest edge, before anything counts
LEAST_WARM_SECONDS = 1.0
RATE_SECONDS = 3.0
ENOUGH = 0.97           # of what was asked; below it each way is tried once more
ALIKE = 1.03  # rates closer than this count as equal; then the longer edge is the slower one


@dataclass(frozen=True)
class Bare:
    rate_asked: float
    rate_measured: float
    rate_congestion: str
    bound_seconds: float
    bound_asked_seconds: float
    floor_seconds: float
    floor_edge: str
    floor_congestion: str


def asked_bits(scenario, edge):
    """What an edge can carry at most: the accesses at its ends, the trainer's shared by its children."""
    source, sink = (scenario.regions[i].access for i in edge)
    return min(source.up_bits, sink.down_bits)


def tree_rate_asked(scenario, tree):
    """Bits per second of the slowest access, an access that feeds several edges shared by them."""
    edges = trees.wan_edges(tree)
    feeding = {edge[0]: sum(other[0] == edge[0] for other in edges) for edge in edges}
    return min(min(scenario.regions[a].access.up_bits / feeding[a], scenario.regions[b].access.down_bits)
               for a, b in edges)


def slowest(scenario, edges, rates):
    """The edge with the lowest rate, the longest among equals."""
    least = min(rates)
    near = [edge for edge, rate in zip(edges, rates) if rate <= least * ALIKE]
    return max(near, key=lambda edge: scenario.delay_us(*edge))


def bound_seconds(payload_bytes, rate_bits, delay_us):
    return payload_bytes * 8 * FULL_PACKET / FULL_PAYLOAD / rate_bits + delay_us / 1e6


def warm_seconds(scenario, edges):
    longest = max(scenario.delay_us(*edge) for edge in edges)
    return max(LEAST_WARM_SECONDS, WARM_ROUND_TRIPS * 2 * longest / 1e6)


def choices(scenario, tree):
    """Congestion controls to try, one for each edge.

    A sink that relays sends its acknowledgements through the same full access as its own data. bbr halves its rate then,
    cubic does not; on long edges cubic may take tens of seconds to grow, bbr does not; with loss cubic collapses.
    """
    edges = trees.wan_edges(tree)
    if scenario.congestion:
        return [[scenario.congestion] * len(edges)]
    if scenario.lossy():
        return [["bbr"] * len(edges)]
    relays = {edge[0] for edge in edges}
    return [["cubic" if edge[1] in relays else "bbr" for edge in edges], ["cubic"] * len(edges)]


def best_rate(pump, pairs, asked, warm, tries, report):
    """Bits per second of the slowest edge while all are busy, under the congestion control that does best."""
    best, congestion = 0.0, ""
    for names in tries + tries:
        if best >= asked * ENOUGH:
            break
        rates = pump.rates(pairs, names, warm, RATE_SECONDS, CONNECTIONS)
        said = ", ".join(f"{rate / 1e6:.1f} ({name})" for rate, name in zip(rates, names))
        report(f"bare TCP on all edges at once: {said} Mbit/s")
        if min(rates) > best:
            best, congestion = min(rates), ", ".join(names)
    return min(best, asked), congestion


def measure(network, pump, sites, tree, payload_bytes, floor_congestion, report):
    """`sites`: one machine for each region index."""
    scenario = network.scenario
    edges = trees.wan_edges(tree)
    asked = tree_rate_asked(scenario, tree)
    warm = warm_seconds(scenario, edges)
    pairs = [(sites[a], sites[b]) for a, b in edges]
    rate, congestion = best_rate(pump, pairs, asked, warm, choices(scenario, tree), report)
    longest = trees.longest_us(scenario, tree)
    edge = slowest(scenario, edges, [asked_bits(scenario, edge) for edge in edges])
    seconds = pump.burst(sites[edge[0]], sites[edge[1]], payload_bytes, floor_congestion, asked / 8 * warm, CONNECTIONS)
    others = max(0, longest - scenario.delay_us(*edge))
    names = f"{scenario.regions[edge[0]].name}-{scenario.regions[edge[1]].name}"
    report(f"bare TCP ({floor_congestion}), the same bytes on {names} alone: {seconds:.2f} s")
    return Bare(asked, rate, congestion, bound_seconds(payload_bytes, rate, longest),
                bound_seconds(payload_bytes, asked, longest), seconds + others / 1e6, names, floor_congestion)
