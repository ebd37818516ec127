"""Command line of simulations/baselines."""

import argparse
import json
import os
import sys

from lab import host, private, scenario
from lab.host import LabError, Skipped
from lab.main import ROOT, _shown

from .tools import TOOLS
from .world import World

FAILED, SKIPPED = 1, 77
OURS = "p2pw"
SPARE_BYTES = 512 << 20


def arguments():
    parser = argparse.ArgumentParser(
        prog="simulations/baselines",
        description="The same file to the same nodes over the same emulated WAN, by other means.",
        epilog="Exit codes: 0 all done and identical, 1 something failed, 2 usage, 77 this machine cannot run the lab.")
    parser.add_argument("tool", nargs="*", help=f"{', '.join([*TOOLS, OURS])} (the lab's own run); default: all")
    parser.add_argument("--scenario", default="wan-2x3", help="whose network (default: wan-2x3)")
    parser.add_argument("--mib", type=int, default=256, help="size of the file (p2pw sends what the scenario says)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one tool may take")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--build", help="a build folder that is ready (default: build/, made and brought up to date)")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # in a process of its own, with a world of its own
    options = parser.parse_args()
    unknown = set(options.tool) - {*TOOLS, OURS}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    options.tool = options.tool or [*TOOLS, OURS]
    return options


def build(options):
    if options.build:
        return options.build
    folder = os.path.join(ROOT, "build")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        _shown(["cmake", "--preset", "release"])
    _shown(["cmake", "--build", folder, "--target", "p2pw-lt-node"])
    return folder


def run_one(options, plan, folder):
    """Inside a private world: one tool, its result as JSON on standard output."""
    size = options.mib << 20
    world = World(plan, folder, os.path.join(options.build, "bin", "p2pw-lt-node"), size)
    try:
        world.network.open()
        world.make_payload()
        seconds, crossed = world.measure(TOOLS[options.one](world), options.timeout)
        home = plan.regions[0].name
        result = {
            "last_node_seconds": round(max(seconds.values()), 2),
            "node_seconds": {name: round(value, 2) for name, value in seconds.items()},
            "wan_wire_copies": {name: round(down.bytes / size, 3) for name, (_, down) in crossed.items() if name != home},
            "trainer_wire_copies": round(crossed[home][0].bytes / size, 3),
            "bit_identical": world.identical(),
        }
    except LabError as error:
        result = {"failed": str(error)}
    finally:
        world.close()
    print(json.dumps(result), flush=True)
    return 0 if result.get("bit_identical") else FAILED


def in_own_process(options, tool):
    command = [sys.executable, "-B", "-c", "import sys; from baselines.main import main; sys.exit(main())",
               "--one", tool, "--scenario", options.scenario, "--mib", str(options.mib),
               "--timeout", str(options.timeout), "--build", options.build]
    return host.answer_of(command, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "simulations", "src")})[1]


def ours(options):
    """The lab's own run of the scenario, in the same words. Its size is what the scenario's checkpoint compresses to."""
    lab = os.path.join(ROOT, "simulations", "lab")
    extra = ["--build", options.build] if options.ready else []
    _, said = host.answer_of([lab, options.scenario, "--json", *extra])
    if "skipped" in said or "failed" in said:
        return said
    keys = ("last_node_seconds", "node_seconds", "wan_wire_copies", "wan_payload_copies", "trainer_upload_copies",
            "delta_bytes", "bit_identical")
    return {key: said[key] for key in keys if key in said}


def table(results):
    lines = [f"{'tool':14}{'last node':>11}  {'copies into each region':32}{'out of the trainer':>19}"]
    for name, result in results.items():
        if "last_node_seconds" not in result:
            lines.append(f"{name:14}{result.get('skipped') or result.get('failed')}")
            continue
        copies = ", ".join(f"{region} {value:.2f}" for region, value in result["wan_wire_copies"].items())
        out = result.get("trainer_wire_copies", result.get("trainer_upload_copies"))
        lines.append(f"{name:14}{result['last_node_seconds']:9.1f} s  {copies:32}{out:19.2f}")
    return "\n".join(lines)


def all_of(options):
    results = {}
    for tool in options.tool:
        print(f"baselines: {tool}", file=sys.stderr, flush=True)
        if tool == OURS:
            results[tool] = ours(options)
        else:
            lacking = TOOLS[tool].missing()
            results[tool] = {"skipped": lacking} if lacking else in_own_process(options, tool)
    print(table(results), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps({"scenario": options.scenario, "payload_bytes": options.mib << 20, "tools": results}), flush=True)
    good = all(result.get("bit_identical") or "skipped" in result for result in results.values())
    return 0 if good else FAILED


def main():
    options = arguments()
    try:
        plan = scenario.load(options.scenario)
        host.require_emulation()
        options.ready = bool(options.build)
        options.build = build(options)
    except Skipped as reason:
        print(f"baselines: skipped: {reason}", file=sys.stderr)
        if options.json:
            print(json.dumps({"skipped": str(reason)}), flush=True)
        return SKIPPED
    except LabError as error:
        print(f"baselines: {error}", file=sys.stderr)
        return 2
    if not options.one:
        return all_of(options)
    machines = 1 + sum(region.nodes for region in plan.regions)
    return private.run(lambda folder: run_one(options, plan, folder), (options.mib << 20) * machines + SPARE_BYTES)
