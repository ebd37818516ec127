#!/usr/bin/env python3
"""A training loop that publishes each step and never runs ahead of its rollout nodes by more than a step or two.

    examples/train_loop.py --channel policy --steps 100 --checkpoints /data/run7

Three ways to bound how old the weights are that rollouts were made with; choose one:
  --mode strict   each step waits until 95 % of the nodes serve it (seed --wait-active)
  --mode behind   training goes on while the fleet loads, at most one version ahead (wait for the version before)
  --mode free     nothing waits; seed itself refuses (exit code 7) when a region is two versions behind, --wait waits instead
Exit codes of p2pw: 6 = the time was up, 7 = busy.
"""

import argparse
import json
import os
import subprocess
import sys


def p2pw(options, *words):
    command = [options.p2pw, *words, "--json", *(["--config", options.config] if options.config else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
    return done.returncode, answer


def train_one_step(options, step):
    """Stands for the trainer: writes checkpoints/step_N and returns its folder."""
    folder = os.path.join(options.checkpoints, f"step_{step:04}")
    if not os.path.isdir(folder):
        raise SystemExit(f"{folder} is not there: put your trainer's step here")
    return folder


def report_staleness(options):
    code, status = p2pw(options, "status")
    for s in status.get("staleness", []) if code == 0 else []:
        if s["channel"] == options.channel:
            print(f"  {s['current']}/{s['nodes']} nodes current, {s['unknown']} unknown; "
                  f"behind: median {s['seconds_median']:.1f} s, worst {s['seconds_max']:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channel", default="policy")
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--active", default="95%")
    parser.add_argument("--timeout", default="300")
    parser.add_argument("--mode", choices=["strict", "behind", "free"], default="behind")
    parser.add_argument("--p2pw", default="p2pw")
    parser.add_argument("--config")
    options = parser.parse_args()

    before = None
    for step in range(options.first, options.first + options.steps):
        folder = train_one_step(options, step)
        if options.mode == "behind" and before is not None:
            code, answer = p2pw(options, "wait", "--channel", options.channel, "--version", str(before), "--active",
                                options.active, "--timeout", options.timeout)
            if code == 6:
                print(f"step {step}: only {answer.get('active')} of {answer.get('total')} nodes serve version {before}; going on")
        words = ["seed", folder, "--channel", options.channel, "--step", str(step), "--wait"]
        if options.mode == "strict":
            words += ["--wait-active", options.active, "--timeout", options.timeout]
        code, answer = p2pw(options, *words)
        if code not in (0, 6):
            raise SystemExit(f"step {step} was not published (exit code {code}): {answer.get('error', answer)}")
        before = answer.get("version", before)
        print(f"step {step}: version {before}, {answer.get('delta_bytes', 0)} bytes, {answer.get('seconds', 0):.2f} s")
        report_staleness(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
