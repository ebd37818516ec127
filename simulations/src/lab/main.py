"""Command line of simulations/lab."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from . import host, payload, private, scenario, selftest
from .host import LabError, Skipped
from .runner import Binaries, Run

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
FAILED, INCOMPLETE, SKIPPED = 1, 6, 77
SPARE_BYTES = 1536 << 20  # for the router and small files


def arguments():
    parser = argparse.ArgumentParser(
        prog="simulations/lab", description="Real daemons on an emulated WAN.",
        epilog="Exit codes: 0 complete and bit-identical, 1 failed, 2 usage, 6 not complete in time, 77 skipped.")
    parser.add_argument("scenario", nargs="?", help="a file in simulations/scenarios, without .toml; or the path of one, with .toml")
    parser.add_argument("--runs", type=int, default=1, metavar="N",
                        help="run it N times; the JSON is the median run's by last_node_seconds, with all runs' seconds")
    parser.add_argument("--list", action="store_true", help="the scenarios, a line each")
    parser.add_argument("--selftest", action="store_true", help="only measure the emulated network (of wan-2x3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--build", help="a build folder that is ready (default: build/, made and brought up to date)")
    parser.add_argument("--keep-logs", metavar="DIR", help="copy the daemons' logs, events, status and configurations there")
    options = parser.parse_args()
    if options.runs < 1 or (options.runs > 1 and not options.scenario):
        parser.error("--runs needs a scenario and a number from 1 on")
    if not (options.scenario or options.selftest or options.list):
        parser.error("which scenario? --list shows them")
    return options


def build(options):
    """The build folder, with what this run needs in it."""
    if options.build:
        return options.build
    folder = os.path.join(ROOT, "build")
    targets = ["p2pw-tcp-pump"] if options.selftest else ["p2pw", "p2pwd", "p2pw-series", "p2pw-tcp-pump", "p2pw-slow-disk"]
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        _shown(["cmake", "--preset", "release"])
    _shown(["cmake", "--build", folder, "--target", *targets])
    return folder


def _shown(command):
    """Its output is for people, so it goes to stderr."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed")


def list_scenarios():
    for entry in sorted(os.listdir(scenario.folder())):
        if entry.endswith(".toml"):
            print(f"{entry[:-5]:22} {scenario.load(entry[:-5]).about}")
    return 0


def work(options, plan, folder):
    pump = os.path.join(options.build, "bin", "p2pw-tcp-pump")

    def report(line):
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    try:
        host.require_emulation()
        if options.selftest:
            result = selftest.run(plan, folder, pump, report)
        else:
            result = Run(plan, Binaries.of(options.build, bool(plan.disk)), folder, report).execute()
        if options.json:
            print(json.dumps(result), flush=True)
        elif not options.selftest:
            print(json.dumps(result, indent=2), flush=True)
        return 0 if options.selftest or result["bit_identical"] else FAILED if result["complete"] else INCOMPLETE
    except Skipped as reason:
        return skip(options, reason)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return FAILED
    finally:
        if options.keep_logs:
            keep_logs(folder, options.keep_logs)


def keep_logs(folder, target):
    for name in sorted(os.listdir(folder)):
        kept = os.path.join(target, name)
        for wanted in ("log", "p2pw.toml", "status.json", "events.json", "peers.json", "metrics.txt"):
            path = os.path.join(folder, name, wanted)
            if os.path.isfile(path):
                os.makedirs(kept, exist_ok=True)
                shutil.copy(path, kept)
        if name in ("seed.out", "seed.err", "router.log"):
            os.makedirs(target, exist_ok=True)
            shutil.copy(os.path.join(folder, name), target)


def skip(options, reason):
    print(f"lab: skipped: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps({"skipped": str(reason)}), flush=True)
    return SKIPPED


def many(options):
    """Runs in processes of their own. The first that fails ends it, with its answer."""
    command = [os.path.join(ROOT, "simulations", "lab"), options.scenario, "--json", "--build", options.build]
    if options.keep_logs:
        command += ["--keep-logs", options.keep_logs]
    answers = []
    for number in range(options.runs):
        print(f"run {number + 1} of {options.runs}", file=sys.stderr, flush=True)
        code, answer = host.answer_of(command)
        if code != 0:
            print(json.dumps(answer), flush=True)
            return code
        answers.append(answer)
    answers.sort(key=lambda answer: answer["last_node_seconds"])
    result = answers[(len(answers) - 1) // 2]
    result["runs_last_node_seconds"] = [answer["last_node_seconds"] for answer in answers]
    print(json.dumps(result, indent=None if options.json else 2), flush=True)
    return 0


def main():
    options = arguments()
    if options.list:
        return list_scenarios()
    try:
        plan = scenario.load(options.scenario or "wan-2x3")
        host.require_emulation()
        options.build = build(options)
        if options.runs > 1:
            return many(options)
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
