"""Command line of simulations/lab."""

import argparse
import json
import os
import sys

from . import host, private, scenario, selftest
from .host import LabError, Skipped

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
SKIPPED = 77


def arguments():
    parser = argparse.ArgumentParser(prog="simulations/lab", description="Real daemons on an emulated WAN.")
    parser.add_argument("scenario", nargs="?", help="a file in simulations/scenarios, without .toml")
    parser.add_argument("--selftest", action="store_true", help="measure the emulated network of the scenario (wan-2x3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="the build folder")
    return parser.parse_args()


def work(options, plan, folder):
    pump = os.path.join(options.build, "bin", "p2pw-tcp-pump")
    def report(line):
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)
    try:
        host.require_emulation()
        result = selftest.run(plan, folder, pump, report)
        if options.json:
            print(json.dumps(result), flush=True)
        return 0
    except Skipped as reason:
        return skip(options, reason)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def skip(options, reason):
    print(f"lab: skipped: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps({"skipped": str(reason)}), flush=True)
    return SKIPPED


def main():
    options = arguments()
    try:
        plan = scenario.load(options.scenario or "wan-2x3")
        host.require_emulation()
    except Skipped as reason:
        return skip(options, reason)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    return private.run(lambda folder: work(options, plan, folder), 1 << 30)
