"""A trainer and nodes as real daemons on loopback addresses of their own, for Python tests. Standard library only.

Everything that was started is ended by its own process id; the folder goes.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def free_net():
    """127.A.B: addresses that nobody listens on."""
    draw = random.Random(os.getpid() * 7919 + time.monotonic_ns())
    for _ in range(200):
        net = f"127.{draw.randrange(20, 220)}.{draw.randrange(1, 250)}"
        with socket.socket() as probe:
            try:
                probe.bind((net + ".1", 4710))
                return net
            except OSError:
                continue
    raise RuntimeError("no free loopback network")


class Machine:
    def __init__(self, fleet, name, region, address):
        self.fleet, self.name, self.region, self.address = fleet, name, region, address
        self.folder = os.path.join(fleet.folder, name)
        self.state = os.path.join(self.folder, "state")
        self.config = os.path.join(self.folder, "p2pw.toml")
        self.log = os.path.join(self.folder, "log")
        os.makedirs(self.folder)
        self.process = None

    def p2pw(self, *words, timeout=120):
        done = subprocess.run([self.fleet.p2pw, *words, "--json", "--config", self.config], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout)
        if done.returncode != 0:
            raise AssertionError(f"p2pw {' '.join(words)} on {self.name}: {done.stdout}{done.stderr}\n{self.last_words()}")
        return json.loads(done.stdout.splitlines()[-1])

    def set_up(self, verb, *words):
        return self.p2pw(verb, *words, "--region", self.region, "--name", self.name, "--address", self.address, "--state",
                         self.state)

    def start(self, environment=None):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.fleet.p2pwd, "--config", self.config], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=environment)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def last_words(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                return "".join(file.readlines()[-8:])
        except OSError:
            return ""


class SmallFleet:
    def prepare(self, build):
        self.p2pw, self.p2pwd = os.path.join(build, "bin", "p2pw"), os.path.join(build, "bin", "p2pwd")
        self.series = os.path.join(build, "bin", "p2pw-series")
        self.folder = tempfile.mkdtemp(prefix="p2pw-fleet-")
        self.net = free_net()

    def __init__(self, build, nodes=1, dashboard=False):
        self.prepare(build)
        self.trainer = Machine(self, "trainer", "home", self.net + ".1")
        self.nodes = []
        token = self.trainer.set_up("init", "--channel", "policy", "--uses", str(max(nodes, 1)))["token"]
        if dashboard:
            self.http = self.free_port()
            with open(self.trainer.config, "a", encoding="utf-8") as file:
                file.write(f'\n[api]\nhttp = "127.0.0.1:{self.http}"\ntoken = "a token for this test"\n')
        self.trainer.start()
        for n in range(nodes):
            node = Machine(self, f"node-{n + 1}", "eu" if n % 2 == 0 else "asia", f"{self.net}.{10 + n}")
            node.set_up("join", token)
            node.start()
            self.nodes.append(node)
        self.wait_for(lambda: len(self.trainer.p2pw("status")["nodes"]) == nodes + 1)

    @staticmethod
    def free_port():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def wait_for(self, what, seconds=90):
        until = time.monotonic() + seconds
        last = None
        while time.monotonic() < until:
            try:
                if what():
                    return
            except AssertionError as error:
                last = error
            time.sleep(0.1)
        logs = "".join(m.last_words() for m in [self.trainer, *self.nodes])
        raise AssertionError(f"it did not come about in {seconds} s: {last}\n{logs}")

    def checkpoints(self, steps=1, size="2MiB"):
        """Folders step_0000 and so on."""
        out = os.path.join(self.folder, f"series-{steps}")
        subprocess.run([self.series, out, "--bytes", size, "--changed", "2", "--steps", str(steps)], check=True,
                       stdout=subprocess.DEVNULL)
        return [os.path.join(out, name) for name in sorted(os.listdir(out)) if name.startswith("step_")]

    def close(self):
        for machine in [*self.nodes, self.trainer]:
            machine.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
