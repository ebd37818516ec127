"""simulations/bench: the lab over a grid of sizes, round trips and topologies, cold and warm. Python standard library only.

cold: the daemons have just started, and only a version of 1 MiB has gone ahead. warm: a version of the same size has.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass

from lab.host import LabError, answer_of
from lab.main import ROOT, SKIPPED, build

SIZES_MIB = (4, 50, 256)
ROUND_TRIPS_MS = (10, 86, 145)
COMPRESSES_TO = 0.6525  # bf16 anchors of p2pw-series
KEYS = ("delta_bytes", "bound_seconds", "floor_seconds", "last_node_seconds", "ratio_to_bound", "ratio_to_floor",
        "first_chunk_seconds", "staged_after_last_byte_seconds", "trainer_upload_copies", "wan_payload_copies",
        "cpu_seconds_per_gib", "rss_anon_bytes", "bit_identical", "warnings")


@dataclass(frozen=True)
class Topology:
    name: str
    regions: int
    nodes: int
    mbit: int


TOPOLOGIES = (Topology("2x3", 2, 3, 200), Topology("1x4", 1, 4, 500))


@dataclass(frozen=True)
class Row:
    mib: int
    round_trip_ms: int
    topology: Topology
    warm: bool

    def scenario(self):
        lines = [f'about = "{self.mib} MiB, {self.round_trip_ms} ms, {self.topology.name}"', "timeout_s = 120", "[payload]",
                 'kind = "anchor"', f"checkpoint_mib = {self.mib / COMPRESSES_TO:.2f}", f"travels_mib = {self.mib}",
                 f'warm_up = "{"full" if self.warm else "small"}"']
        for index in range(self.topology.regions + 1):
            lines += ["[[region]]", f'name = "{f"r{index}" if index else "home"}"',
                      f"nodes = {self.topology.nodes if index else 0}", f"up_mbit = {self.topology.mbit}",
                      f"down_mbit = {self.topology.mbit}", f"delay_ms = {self.round_trip_ms / 2 if index else 0}"]
        return "\n".join(lines) + "\n"

    def named(self):
        return {"mib": self.mib, "round_trip_ms": self.round_trip_ms, "topology": self.topology.name,
                "mbit": self.topology.mbit, "links": "warm" if self.warm else "cold"}


def grid(quick):
    if quick:
        two, one = TOPOLOGIES
        return [Row(4, 145, one, True), Row(50, 145, one, True), Row(50, 86, two, False), Row(256, 86, two, False)]
    return [Row(mib, trip, topology, warm) for mib in SIZES_MIB for topology in TOPOLOGIES for trip in ROUND_TRIPS_MS
            for warm in (False, True)]


def chosen(rows, words):
    """Those of which every word tells something: 256, 86ms, 1x4, warm."""
    def words_of(row):
        return {str(row.mib), f"{row.round_trip_ms}ms", row.topology.name, "warm" if row.warm else "cold"}
    return [row for row in rows if set(words) <= words_of(row)]


def arguments():
    parser = argparse.ArgumentParser(
        prog="simulations/bench", description="Time to the last node over sizes, round trips and topologies.",
        epilog="Exit codes: 0 every run bit-identical, 1 something failed, 77 this machine cannot run the lab.")
    parser.add_argument("--quick", action="store_true", help="four rows and no baselines, within five minutes")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="WORDS",
                        help="rows of this kind, e.g. 256,86ms,1x4,warm, and no baselines")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="each row is the median of so many (default: 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("--build", help="a build folder that is ready (default: build/, made and brought up to date)")
    options = parser.parse_args()
    if options.only and not chosen(grid(options.quick), options.only):
        parser.error(f"no row is all of {', '.join(options.only)}")
    options.selftest = False
    return options


def measure(row, options, folder):
    path = os.path.join(folder, "row.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(row.scenario())
    code, answer = answer_of([os.path.join(ROOT, "simulations", "lab"), path, "--json", "--build", options.build,
                              "--runs", str(options.runs)])
    return code, {**row.named(), **{key: answer[key] for key in (*KEYS, "failed", "skipped") if key in answer}}


def baselines(options):
    code, answer = answer_of([os.path.join(ROOT, "simulations", "baselines"), "http", "rsync", "aria2", "transmission",
                              "libtorrent", "--json", "--build", options.build])
    for name, result in answer.get("tools", {}).items():
        yield code, {"mib": 256, "topology": "wan-2x3", "mbit": 200, "tool": name, **result}


def show(row, options):
    if options.json:
        print(json.dumps(row), flush=True)
    elif "tool" in row:
        print(f"{row['tool']:>14} 256 MiB wan-2x3 {row.get('last_node_seconds', 'failed'):>9} s", flush=True)
    elif "last_node_seconds" not in row:
        print(f"{row['mib']:4} MiB {row['round_trip_ms']:4} ms {row['topology']} {row['links']}: {row.get('failed', 'skipped')}")
    else:
        print(f"{row['mib']:4} MiB {row['round_trip_ms']:4} ms {row['topology']} {row['mbit']} Mbit/s {row['links']}: bound "
              f"{row['bound_seconds']:7.3f} floor {row['floor_seconds']:7.3f} ours {row['last_node_seconds']:7.3f} s, "
              f"{row['ratio_to_bound']:.3f} x bound, out of the trainer {row['trainer_upload_copies']:.3f} x", flush=True)


def main():
    options = arguments()
    try:
        options.build = build(options)
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    worst = 0
    with tempfile.TemporaryDirectory(prefix="p2pw-bench-") as folder:
        for row in chosen(grid(options.quick), options.only or []):
            code, answer = measure(row, options, folder)
            show(answer, options)
            if code == SKIPPED:
                return SKIPPED
            worst = max(worst, 1 if code else 0)
    if not options.quick and not options.only:
        for code, answer in baselines(options):
            show(answer, options)
            worst = max(worst, 1 if code else 0)
    return worst
