"""tests/hotload: what happens when an engine does not do as it is told.

A trainer and a node as real p2pwd on loopback addresses, and an engine from fake_engines.py beside the node, one kind after
the other. Each scenario breaks the engine, publishes a version, and writes down what the node says, what the engine was
told, and which version `current` names; then heals the engine and checks that the version gets through. A row is wrong
when p2pwd says that the engine serves something which it does not. Python standard library only.
"""

import argparse
import glob
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "src"))
import fake_engines  # noqa: E402

CHANNEL = "policy"
PATIENCE = 60  # for whatever must come in the end; nothing here is timed by it
GOAL_MS = 20

# fault, how often it strikes, in words; then what must be seen while it lasts: state, what `current` names (0 = the version
# before, 1 = the new one).
SCENARIOS = {
    "sglang": [
        ("", None, "works", "idle", 1),
        ("busy", 1, "refuses while requests run", "staged", 0),
        ("refuse", 1, "answers 400 with the documented body", "staged", 0),
        ("half", 1, "loads half, answers 400", "staged", 0),
        ("label", None, "says success, reports the old version", "staged", 0),
        ("pause", 1, "refuses to pause", "staged", 0),
        ("continue", 1, "cuts off continue once", "idle", 1),
        ("hang", None, "hangs in the load", "unknown", 0),
        ("restart", 1, "restarts midway", "unknown", 0),
        ("gone", None, "is not there", "unknown", 0),
    ],
    "vllm": [
        ("", None, "works", "idle", 1),
        ("refuse", 1, "answers 500", "staged", 0),
        ("half", 1, "one rank fails to load, answers 500", "staged", 0),
        ("label", None, "says success, reports the old version", "staged", 0),
        ("pause", 1, "refuses to pause", "staged", 0),
        ("continue", 1, "cuts off resume once", "idle", 1),
        ("hang", None, "hangs in the load", "unknown", 0),
        ("restart", 1, "restarts midway", "unknown", 0),
        ("routes", None, "runs without VLLM_SERVER_DEV_MODE", "unknown", 0),
    ],
    "webhook": [("", None, "works", "idle", 1), ("refuse", 1, "refuses", "staged", 0), ("hang", None, "hangs", "unknown", 0)],
    "socket": [("", None, "works", "idle", 1), ("refuse", 1, "refuses", "staged", 0), ("hang", None, "hangs", "unknown", 0)],
    "exec": [("", None, "works", "idle", 1), ("refuse", 1, "refuses", "staged", 0), ("hang", None, "hangs", "unknown", 0)],
}


class Failed(Exception):
    pass


def until(what, condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Failed(f"after {patience} s still not: {what}")


def write_checkpoint(folder, values):
    """Two files, so that there is a half to load."""
    os.makedirs(folder)
    for number, data in enumerate(values):
        header = json.dumps({f"w{number}": {"dtype": "BF16", "shape": [len(data) // 2], "data_offsets": [0, len(data)]}})
        header += " " * (-len(header) % 8)
        with open(os.path.join(folder, f"model-{number}.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header.encode() + data)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "test"}, file)


def digests(folder):
    found = {}
    for name in glob.glob(os.path.join(folder, "*.safetensors")):
        with open(name, "rb") as file:
            found[os.path.basename(name)] = hashlib.sha256(file.read()).hexdigest()
    return found


class Fleet:
    """A trainer and, for each kind of engine, a node of its own. All of it goes with this object."""

    def __init__(self, binaries, folder, seed):
        self.binaries, self.folder = binaries, folder
        self.random = random.Random(seed)
        self.processes = {}
        self.net = self.free_net()
        self.values = [bytearray(self.random.randbytes(200_000)) for _ in range(2)]
        self.versions = {}  # number -> digests
        self.version = 0
        self.numbers = 1

    @staticmethod
    def free_net():
        for net in range(20 + os.getpid() % 180, 250):
            with socket.socket() as probe:
                try:
                    probe.bind((f"127.{net}.0.1", 4710))
                    return net
                except OSError:
                    continue
        raise Failed("no free loopback addresses")

    def p2pw(self, daemon, *words, check=True):
        command = [os.path.join(self.binaries, "p2pw"), *words, "--json", "--config", self.config(daemon)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise Failed(f"p2pw {' '.join(words)}: {done.stdout.strip()} {done.stderr.strip()}")
        return json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else {}

    def config(self, daemon):
        return os.path.join(self.folder, daemon, "p2pw.toml")

    def start(self, daemon):
        with open(os.path.join(self.folder, daemon, "log"), "ab") as log:
            self.processes[daemon] = subprocess.Popen(
                [os.path.join(self.binaries, "p2pwd"), "--config", self.config(daemon)], stdout=log, stderr=log)

    def start_trainer(self):
        at = f"127.{self.net}.0.1"
        os.makedirs(os.path.join(self.folder, "trainer"))
        made = self.p2pw("trainer", "init", "--channel", CHANNEL, "--region", "home", "--address", at, "--listen", at,
                         "--name", "trainer", "--uses", "20", "--state", os.path.join(self.folder, "trainer", "state"))
        self.token = made["token"]
        self.start("trainer")
        until("the trainer answers", lambda: self.status("trainer"))

    def start_node(self, name, hook):
        self.numbers += 1
        at = f"127.{self.net}.1.{self.numbers}"
        os.makedirs(os.path.join(self.folder, name))
        self.p2pw(name, "join", self.token, "--region", "eu", "--address", at, "--listen", at, "--name", name, "--state",
                  os.path.join(self.folder, name, "state"))
        with open(self.config(name)) as file:
            written = file.read()
        table = f'[channels."{CHANNEL}"]\n'
        if table not in written:
            raise Failed(f"join wrote no {table.strip()}")
        # The old slot is let go of soon: the next version is staged there.
        written = written.replace(table, table + "grace_seconds = 1\n")
        with open(self.config(name), "w") as file:
            file.write(f"{written}\n[channels.{CHANNEL}.hook]\n{hook}\n")
        self.start(name)

    def stop(self, name):
        process = self.processes.pop(name, None)
        if not process:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, daemon, target):
        """GET of the daemon's own socket; None while nobody answers."""
        connection = http.client.HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(10)
        try:
            connection.sock.connect(os.path.join(self.folder, daemon, "state", "api.sock"))
            connection.request("GET", target)
            return json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def status(self, daemon):
        channels = (self.ask(daemon, "/v1/status") or {}).get("channels")
        return channels[0] if channels else None

    def seed(self):
        self.version += 1
        for data in self.values:
            for _ in range(500):
                data[self.random.randrange(0, len(data) // 2) * 2] ^= 1
        folder = os.path.join(self.folder, f"step_{self.version:04}")
        write_checkpoint(folder, self.values)
        self.versions[self.version] = digests(folder)
        self.p2pw("trainer", "seed", folder, "--channel", CHANNEL, "--version", str(self.version), "--wait")
        return self.version

    def current(self, daemon):
        """The version whose bytes `current` names; 0 = none of them."""
        found = digests(os.path.join(self.folder, daemon, "state", "channels", CHANNEL, "current"))
        return next((v for v, d in self.versions.items() if d == found), 0)

    def served(self, engine):
        return next((v for v, d in self.versions.items() if d == engine.files), 0)

    def events(self, daemon):
        return (self.ask(daemon, f"/v1/log?channel={CHANNEL}&after=0&limit=100000") or {}).get("entries", [])

    def stop_all(self):
        for name in list(self.processes):
            self.stop(name)


def make_engine(kind, folder):
    if kind == "sglang":
        engine = fake_engines.Sglang()
        return engine, f'kind = "sglang"\nurl = "{engine.url()}"'
    if kind == "vllm":
        engine = fake_engines.Vllm()
        return engine, f'kind = "vllm"\nurl = "{engine.url()}"'
    if kind == "webhook":
        engine = fake_engines.Webhook()
        return engine, f'kind = "webhook"\nurl = "{engine.url()}/hook"'
    if kind == "socket":
        path = os.path.join(folder, "engine.sock")
        return fake_engines.Socket(path), f'kind = "socket"\nsocket = "{path}"'
    engine = fake_engines.Program(folder)
    return engine, f'kind = "exec"\ncommand = ["{engine.program}"]'


def failed_event(fleet, name, version):
    return any(e["event"] == "activation-failed" and e["version"] == version for e in fleet.events(name))


def run_scenario(fleet, name, kind, engine, scenario):
    fault, shots, words, expected_state, new = scenario
    engine.break_with(fault or None, shots)
    pauses = len(engine.pauses)
    if fault == "gone":
        engine.down()
    version = fleet.seed()

    def settled():
        status = fleet.status(name)
        if not status or status["version_staged"] != version or status["state"] == "activating":
            return None
        done = status["version_active"] == version if new else failed_event(fleet, name, version)
        return status if done and status["state"] == expected_state else None

    try:
        status = until(f"{kind} {words}: {expected_state}", settled)
    except Failed:
        status = fleet.status(name)
    told = list(engine.told)
    row = {
        "engine": kind, "fault": words, "version": version, "state": status["state"], "engine_known": status["engine"],
        "version_active": status["version_active"], "current": fleet.current(name), "told": told,
        "engine_serves": fleet.served(engine), "engine_paused": engine.paused, "problem": status["problem"],
    }
    right = row["state"] == expected_state and row["current"] == version - 1 + new
    if fault == "continue":
        del engine.pauses[pauses:]  # it went on late by its own doing
    # What is said to be active is what the engine holds, and what `current` names.
    if row["version_active"]:
        right = right and row["version_active"] == row["engine_serves"] == row["current"]
    else:
        right = right and row["state"] == "unknown"
    engine.heal()
    # While nobody knows, p2pwd finds out by itself; the version itself is asked for again, as an operator would.
    try:
        until(f"{kind} {words}: known again", lambda: (fleet.status(name) or {}).get("engine") == "known")
        if not new:
            fleet.p2pw(name, "activate", "--channel", CHANNEL, "--version", str(version), check=False)
        until(f"{kind} {words}: version {version} active after healing",
              lambda: (fleet.status(name) or {}).get("version_active") == version)
        row["after_healing"] = fleet.served(engine)
    except Failed as error:
        row["after_healing"] = 0
        row["problem"] += f" | {error}"
    row["right"] = bool(right and row["after_healing"] == version and not engine.paused)
    return row


def run_kind(fleet, kind, report):
    name = f"node-{kind}"
    folder = os.path.join(fleet.folder, f"engine-{kind}")
    os.makedirs(folder)
    engine, hook = make_engine(kind, folder)
    fleet.start_node(name, hook + "\nload_seconds = 1\ncontrol_seconds = 2\nretries = 0\nwatch_seconds = 1\n")
    if fleet.version == 0:
        fleet.seed()
    until("the node serves the first version", lambda: (fleet.status(name) or {}).get("version_active") == fleet.version)
    rows = []
    for scenario in SCENARIOS[kind]:
        rows.append(run_scenario(fleet, name, kind, engine, scenario))
        report(rows[-1])
    fleet.stop(name)
    if hasattr(engine, "down"):
        engine.down()
    return rows, engine.pauses


def table(rows):
    lines = [("engine", "it ...", "state", "active", "current", "serves", "the engine was told", "")]
    for r in rows:
        v = r["version"]

        def name(number):
            return "new" if number == v else "old" if number == v - 1 else "-" if number == 0 else str(number)

        told = ", ".join(r["told"][:9]) + (", ..." if len(r["told"]) > 9 else "")
        told = told.replace(f"load {v}", "load new").replace(f"load {v - 1}", "load old")
        lines.append((r["engine"], r["fault"], r["state"], name(r["version_active"]), name(r["current"]),
                      name(r["engine_serves"]), told or "nothing", "" if r["right"] else "WRONG"))
    widths = [max(len(line[i]) for line in lines) for i in range(7)]
    return "\n".join("  ".join([c.ljust(w) for c, w in zip(line, widths)] + [line[7]]).rstrip() for line in lines)


def main():
    parser = argparse.ArgumentParser(prog="tests/hotload", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--engine", action="append", choices=sorted(SCENARIOS), help="only these kinds")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build folder (default: build)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the generated weights")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder, and say where")
    options = parser.parse_args()

    def say(text):
        print(text, file=sys.stderr, flush=True)

    say(f"seed {options.seed}")
    folder = tempfile.mkdtemp(prefix="p2pw-hotload-")
    fleet = Fleet(os.path.join(options.build, "bin"), folder, options.seed)
    rows, pauses = [], []

    def stopped(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stopped)
    try:
        fleet.start_trainer()
        for kind in options.engine or SCENARIOS:
            more, seen = run_kind(fleet, kind, lambda r: say(f"  {'ok ' if r['right'] else 'BAD'} {r['engine']}: {r['fault']}"))
            rows += more
            pauses += seen
    finally:
        fleet.stop_all()
        if options.keep:
            say(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    ours = sorted(1000 * (paused - loading) for paused, loading in pauses)
    result = {
        "scenarios": rows,
        "right": all(r["right"] for r in rows),
        "pauses": len(ours),
        "pause_overhead_ms_median": round(ours[len(ours) // 2], 2) if ours else None,
        "pause_overhead_ms_max": round(ours[-1], 2) if ours else None,
        "seed": options.seed,
    }
    out = sys.stderr if options.json else sys.stdout
    print(table(rows), file=out)
    if ours:
        print(f"\nfrom pause to continue, less the engine's own load, {len(ours)} loads: median "
              f"{result['pause_overhead_ms_median']} ms, worst {result['pause_overhead_ms_max']} ms (goal: < {GOAL_MS} ms)", file=out)
    if options.json:
        print(json.dumps(result))
    return 0 if result["right"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        print(f"tests/hotload: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
