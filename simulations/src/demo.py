"""simulations/demo: a trainer and regions of nodes as real daemons on loopback addresses.

127.X.R.N stands for machine N of region R; X is drawn, so that several demos run side by side. Every daemon has its own
state folder in one temporary folder, which goes at the end, as do the daemons, also after Ctrl-C.
Python standard library only.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BIN = os.path.join(ROOT, "build", "bin")
CHANNEL = "policy"
HOME = "home"
REGIONS = ("eu", "asia", "us", "au", "sa", "af")
START_SECONDS = 60
MAX_COPIES = 1.02  # what the contract allows
BLOCK = 4 << 20


class DemoError(Exception):
    pass


class Interrupted(Exception):
    pass


class Screen:
    """What is said while it runs: on standard error; the line of progress only on a terminal."""

    def __init__(self, quiet):
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self.drawn = False

    def say(self, text=""):
        self.wipe()
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def draw(self, text):
        if self.quiet or not self.terminal:
            return
        width = shutil.get_terminal_size().columns - 1
        print("\r\033[K" + text[:width], end="", file=sys.stderr, flush=True)
        self.drawn = True

    def wipe(self):
        if self.drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self.drawn = False


class Machine:
    """One daemon with its configuration, state and log."""

    def __init__(self, folder, name, region, address):
        self.name, self.region, self.address = name, region, address
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        self.config = os.path.join(self.folder, "p2pw.toml")
        self.state = os.path.join(self.folder, "state")
        self.log = os.path.join(self.folder, "log")
        self.process = None

    def command(self, verb, *arguments):
        return [os.path.join(BIN, "p2pw"), verb, *arguments, "--json", "--config", self.config]

    def ask(self, verb, *arguments):
        """A verb of p2pw on this machine: its answer."""
        done = subprocess.run(self.command(verb, *arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return answer_of(done.stdout, done.stderr, done.returncode, f"p2pw {verb} on {self.name}")

    def set_up(self, verb, *arguments):
        return self.ask(verb, *arguments, "--region", self.region, "--name", self.name, "--address", self.address,
                        "--state", self.state)

    def start(self):
        with open(self.log, "ab") as log:
            # A session of its own: Ctrl-C reaches this script only, which then ends its daemons in order.
            self.process = subprocess.Popen([os.path.join(BIN, "p2pwd"), "--config", self.config], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)

    def check_alive(self):
        if self.process is not None and self.process.poll() is not None:
            raise DemoError(f"the daemon of {self.name} has ended with {self.process.returncode}: {self.last_words()}")

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return " / ".join(line.strip() for line in file.readlines()[-3:]) or "nothing in its log"

    def current(self):
        for channel in self.ask("status")["channels"]:
            if channel["channel"] == CHANNEL and channel["current"]:
                return os.path.realpath(channel["current"])
        raise DemoError(f"{self.name} has no `current`")


def answer_of(out, err, code, what):
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if code != 0 or not lines:
        reason = err.strip().splitlines()
        raise DemoError(f"{what} failed with exit code {code}: {reason[-1] if reason else 'no reason given'}")
    return json.loads(lines[-1])


class Demo:
    def __init__(self, options, screen):
        self.options, self.screen = options, screen
        self.folder = tempfile.mkdtemp(prefix="p2pw-demo-", dir=options.dir)
        self.machines = []
        self.children = []
        self.rows = []

    # Set-up

    def make_series(self):
        self.screen.say(f"making {self.options.steps + 1} checkpoints of {self.options.bytes}, "
                        f"{self.options.changed:g} % of the weights changed from one to the next")
        folder = os.path.join(self.folder, "series")
        done = subprocess.run([os.path.join(BIN, "p2pw-series"), folder, "--bytes", self.options.bytes, "--changed",
                               str(self.options.changed), "--steps", str(self.options.steps), "--seed",
                               str(self.options.seed), "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        made = answer_of(done.stdout, done.stderr, done.returncode, "p2pw-series")
        room = shutil.disk_usage(self.folder).free
        # Two slots a machine, and its bundles.
        needed = int(made["checkpoint_bytes"] * (1 + self.options.regions * self.options.nodes) * 2.8) + (256 << 20)
        if room < needed:
            raise DemoError(f"{self.folder} has {room >> 20} MiB left and {needed >> 20} MiB are needed: give --dir")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("step_")]

    def set_up(self):
        net = free_network(self.options.regions)
        trainer = Machine(self.folder, "trainer", HOME, f"{net}.0.1")
        self.machines.append(trainer)
        count = self.options.regions * self.options.nodes
        token = trainer.set_up("init", "--channel", CHANNEL, "--uses", str(count))["token"]
        for r in range(self.options.regions):
            for n in range(self.options.nodes):
                region = REGIONS[r]
                node = Machine(self.folder, f"{region}-{n + 1}", region, f"{net}.{r + 1}.{n + 1}")
                self.machines.append(node)
                node.set_up("join", token)
        self.screen.say(f"a trainer at {trainer.address}; " + "; ".join(
            f"region {REGIONS[r]} at {net}.{r + 1}.1 to .{self.options.nodes}" for r in range(self.options.regions)))
        for machine in self.machines:
            machine.start()
        self.wait_for_nodes(count)

    def wait_for_nodes(self, count):
        until = time.monotonic() + START_SECONDS
        while True:
            for machine in self.machines:
                machine.check_alive()
            try:
                nodes = self.trainer.ask("status")["nodes"]
                seen = sum(1 for n in nodes if n["channel"] == CHANNEL and n["region"] != HOME and n["state"] != "offline")
            except DemoError:
                seen = 0
            self.screen.draw(f"{seen} of {count} nodes have joined")
            if seen >= count:
                self.screen.say(f"all {count} nodes have joined with one token")
                return
            if time.monotonic() > until:
                raise DemoError(f"after {START_SECONDS} s only {seen} of {count} nodes have joined")
            time.sleep(0.2)

    @property
    def trainer(self):
        return self.machines[0]

    @property
    def nodes(self):
        return self.machines[1:]

    # One version

    def publish(self, step, directory):
        command = self.trainer.command("seed", directory, "--channel", CHANNEL, "--step", str(step), "--wait",
                                       "--wait-active", "100%", "--timeout", str(self.options.timeout))
        started = time.monotonic()
        seed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL, start_new_session=True)
        self.children.append(seed)
        version, seconds = step + 1, {}
        reader = Reader(seed)
        while seed.poll() is None:
            self.watch(version, started, seconds)
            time.sleep(0.2)
        self.children.remove(seed)
        out, err = reader.result()
        made = answer_of(out, err, seed.returncode, "p2pw seed")
        self.watch(version, started, seconds)
        row = {"made": made, "last_staged": max(seconds.values(), default=None), "directory": directory}
        row["identical"] = self.compare(directory)
        row["trainer"], row["regions"] = self.copies(made["version"])
        self.rows.append(row)
        self.tell(row)

    def watch(self, version, started, seconds):
        """Draws who has what; notes when each node had staged the version."""
        try:
            nodes = [n for n in self.trainer.ask("status")["nodes"] if n["channel"] == CHANNEL and n["region"] != HOME]
        except DemoError:
            return
        now = time.monotonic() - started
        for node in nodes:
            if node["version_staged"] >= version:
                seconds.setdefault(node["node"], now)
        parts = []
        for region in REGIONS[:self.options.regions]:
            mine = [n for n in nodes if n["region"] == region]
            staged = sum(n["version_staged"] >= version for n in mine)
            active = sum(n["version_active"] >= version for n in mine)
            states = ",".join(sorted({n["state"] for n in mine if n["version_staged"] < version}))
            parts.append(f"{region}: {staged}/{len(mine)} staged, {active} active {states}".strip())
        self.screen.draw(f"version {version}  {now:4.1f} s  " + " | ".join(parts))

    def compare(self, directory):
        """Every node's `current` with the source, byte by byte; says which file differs."""
        identical = True
        for node in self.nodes:
            self.screen.draw(f"comparing {node.name} with {os.path.basename(directory)}")
            problem = first_difference(directory, node.current())
            if problem:
                identical = False
                self.screen.say(f"{node.name}: {problem}")
        return identical

    def copies(self, version):
        """What senders counted: chunk payload written, over the used bytes of the version's bundles."""
        written, used, out = {}, 0, 0
        for machine in self.machines:
            for copy in machine.ask("status")["copies"]:
                if copy["channel"] != CHANNEL or copy["version"] != version:
                    continue
                used = max(used, copy["used_bytes"])
                if machine is self.trainer:
                    out += copy["payload_bytes"]
                if machine.region != copy["region"]:
                    written[copy["region"]] = written.get(copy["region"], 0) + copy["payload_bytes"]
        if used == 0:
            raise DemoError(f"no daemon has counted any bytes of version {version}")
        return (out, used), {region: (written.get(region, 0), used) for region in REGIONS[:self.options.regions]}

    # The answer

    def tell(self, row):
        made = row["made"]
        self.screen.say(f"version {made['version']}  {made['kind']:6}  {made['delta_bytes'] / 1e6:8.2f} MB  "
                        f"{100 * made['delta_bytes'] / made['input_bytes']:6.2f} %  "
                        + ("identical on all nodes" if row["identical"] else "DIFFERENT"))

    def summary(self):
        def ratio(pairs):
            used = sum(u for _, u in pairs)
            return round(sum(b for b, _ in pairs) / used, 4) if used else 0

        return {
            "versions": len(self.rows),
            "nodes": len(self.nodes),
            "regions": self.options.regions,
            "trainer_upload_copies": ratio([row["trainer"] for row in self.rows]),
            "wan_payload_copies": {r: ratio([row["regions"][r] for row in self.rows]) for r in REGIONS[:self.options.regions]},
            "bit_identical": bool(self.rows) and all(row["identical"] for row in self.rows),
            "deltas": [{key: row["made"][key] for key in ("version", "kind", "delta_bytes", "input_bytes",
                                                          "changed_elements", "bits_per_changed_element", "seconds")}
                       for row in self.rows],
        }

    def table(self):
        regions = REGIONS[:self.options.regions]
        head = ["version", "kind", "delta", "of full", "bits/changed", "out of trainer"] + [f"into {r}" for r in regions]
        head += ["staged everywhere", "identical"]
        lines = [head]
        for row in self.rows:
            made = row["made"]
            bits = f"{made['bits_per_changed_element']:.2f}" if made["kind"] == "delta" else "-"
            lines.append([str(made["version"]), made["kind"], f"{made['delta_bytes'] / 1e6:.2f} MB",
                          f"{100 * made['delta_bytes'] / made['input_bytes']:.2f} %", bits,
                          f"{row['trainer'][0] / row['trainer'][1]:.3f} x"]
                         + [f"{b / u:.3f} x" for b, u in (row["regions"][r] for r in regions)]
                         + ["-" if row["last_staged"] is None else f"{row['last_staged']:.2f} s",
                            "yes" if row["identical"] else "NO"])
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)

    def run(self):
        steps = self.make_series()
        self.set_up()
        for step, directory in enumerate(steps):
            self.publish(step, directory)
        return self.summary()

    def close(self):
        self.screen.wipe()
        for child in self.children:
            child.terminate()
        for machine in self.machines:
            if machine.process is not None and machine.process.poll() is None:
                machine.process.terminate()
        until = time.monotonic() + 10
        for process in self.children + [m.process for m in self.machines if m.process is not None]:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.options.keep:
            self.screen.say(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class Reader:
    """Takes a child's output while it runs, so that it never waits for a full pipe."""

    def __init__(self, process):
        self.process, self.parts = process, {}
        self.threads = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in ("stdout", "stderr")]
        for thread in self.threads:
            thread.start()

    def _read(self, name):
        self.parts[name] = getattr(self.process, name).read()

    def result(self):
        for thread in self.threads:
            thread.join()
        return self.parts["stdout"], self.parts["stderr"]


def free_network(regions):
    """The first two octets of a loopback network where nobody listens on the default ports."""
    for _ in range(50):
        net = f"127.{random.randint(10, 250)}"
        try:
            for host in [f"{net}.0.1"] + [f"{net}.{r + 1}.1" for r in range(regions)]:
                for port in (4710, 4711):
                    with socket.socket() as probe:
                        probe.bind((host, port))
            return net
        except OSError:
            continue
    raise DemoError("no free loopback network found")


def files_of(folder):
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            found[os.path.relpath(path, folder)] = path
    return found


def first_difference(source, copy):
    left, right = files_of(source), files_of(copy)
    if left.keys() != right.keys():
        return f"other files: {', '.join(sorted(left.keys() ^ right.keys()))}"
    for name in sorted(left):
        with open(left[name], "rb") as a, open(right[name], "rb") as b:
            while True:
                x, y = a.read(BLOCK), b.read(BLOCK)
                if x != y:
                    return f"{name} differs"
                if not x:
                    break
    return None


def parse_arguments():
    parser = argparse.ArgumentParser(prog="simulations/demo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Exit codes: 0 all identical with one copy each, 1 not, 130 interrupted.")
    parser.add_argument("--bytes", default="64MiB", help="size of one checkpoint (default: %(default)s)")
    parser.add_argument("--changed", type=float, default=2.0, help="%% of the weights that change (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=4, help="versions after the first (default: %(default)s)")
    parser.add_argument("--regions", type=int, default=2, choices=range(1, len(REGIONS) + 1), metavar="N")
    parser.add_argument("--nodes", type=int, default=3, choices=range(1, 21), metavar="N", help="in each region")
    parser.add_argument("--seed", type=int, default=1, help="of the checkpoints; the same gives the same bytes")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a version (default: %(default)s)")
    parser.add_argument("--dir", default="/var/tmp", help="where the temporary folder is made (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder with configurations and logs")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser.parse_args()


def interrupt(number, frame):
    raise Interrupted()


def main():
    options = parse_arguments()
    screen = Screen(quiet=options.json)
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    demo = None
    try:
        demo = Demo(options, screen)
        summary = demo.run()
        copies = {"out of the trainer": summary["trainer_upload_copies"],
                  **{"into " + region: count for region, count in summary["wan_payload_copies"].items()}}
        too_many = [f"{count:.3f} copies {where}" for where, count in copies.items() if count > MAX_COPIES]
        if options.json:
            print(json.dumps(summary), flush=True)
        else:
            screen.say()
            print(demo.table(), flush=True)
        if not summary["bit_identical"]:
            print("demo: a node has other bytes than the trainer; --keep leaves their folders and logs", file=sys.stderr)
        if too_many:
            print(f"demo: {', '.join(too_many)}, more than {MAX_COPIES}: a daemon was taken for dead while this machine was busy; "
                  "run it again with nothing else running", file=sys.stderr)
        return 0 if summary["bit_identical"] and not too_many else 1
    except Interrupted:
        screen.say("interrupted: ending the daemons")
        return 130
    except DemoError as error:
        if options.json:
            print(json.dumps({"error": {"code": "failed", "message": str(error)}}), flush=True)
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if demo is not None:
            demo.close()


if __name__ == "__main__":
    sys.exit(main())
