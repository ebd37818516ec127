"""Command line of simulations/lab."""

import argparse
import json
import os
import shutil
import sys
import tempfile

from . import host, payload, private, scenario, selftest
from .host import LabError, Skipped
from .runner import Binaries, Run

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
FAILED, INCOMPLETE, SKIPPED = 1, 6, 77
SPARE_BYTES = 512 << 20


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
        if options.selftest:
            result = selftest.run(plan, folder, pump, report)
        else:
            result = Run(plan, Binaries.of(options.build), folder, report).execute()
        if options.json:
            print(json.dumps(result), flush=True)
        elif not options.selftest:
            print(json.dumps(result, indent=2), flush=True)
        return 0 if options.selftest or result["bit_identical"] else FAILED if result["complete"] else INCOMPLETE
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
    return run_in_room(options, plan)


def run_in_room(options, plan):
    """In memory when it fits and the scenario does not want a disk."""
    needed = 0 if options.selftest else payload.room_needed(plan)
    if plan.payload.slots == "memory" and needed * 1.2 < host.available_memory():
        return private.run(lambda folder: work(options, plan, folder), needed + SPARE_BYTES)
    folder = tempfile.mkdtemp(prefix="p2pw-lab-", dir="/var/tmp")
    try:
        if shutil.disk_usage(folder).free < needed:
            print(f"lab: {needed >> 20} MiB are needed in {folder}", file=sys.stderr)
            return FAILED
        return private.run(lambda _: work(options, plan, folder), SPARE_BYTES)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
