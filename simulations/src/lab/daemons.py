"""The real daemons: set up with `p2pw init` and `p2pw join`, run in their machines, asked over their unix sockets."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time

from .host import LabError
from .network import json_of

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "cli", "python"))
from p2pw import UnixConnection  # noqa: E402

CHANNEL = "lab"


class Unreachable(Exception):
    """The daemon does not answer now."""


class Daemon:
    """p2pwd on one machine, with the process that runs its swarm. `state` is one of: down, up, paused."""

    ANSWER_SECONDS = 5.0

    def __init__(self, network, node, binaries, folder, usage, disk_mb_per_s=0):
        self._network = network
        self._disk_mb_per_s = disk_mb_per_s
        self._binaries = binaries
        self._usage = usage
        self.node = node
        self.name = node.name
        self.region = node.region
        self.folder = folder
        self.config = os.path.join(folder, "p2pw.toml")
        self.state_folder = os.path.join(folder, "state")
        self.process = None
        self.state = "down"
        os.makedirs(folder)

    def cli(self, *arguments):
        """A verb of p2pw on this machine; its last JSON line."""
        return json_of(self._network.output_of(self.node, self.command(*arguments)))

    def command(self, *arguments):
        return [self._binaries.p2pw, *arguments, "--json", "--config", self.config]

    def start(self):
        log = open(os.path.join(self.folder, "log"), "ab")
        self.process = self._network.start(
            self.node, [self._binaries.p2pwd, "--config", self.config], stdout=log, stderr=log, env=self._environment())
        log.close()
        self.state = "up"
        self._usage.watch(self.name, self.process.pid)

    def _environment(self):
        environment = dict(os.environ)
        if self._disk_mb_per_s:
            environment["LD_PRELOAD"] = self._binaries.slow_disk
            environment["P2PW_SLOW_DISK_MB_PER_S"] = f"{self._disk_mb_per_s:g}"
        return environment

    def wait_ready(self, seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise LabError(f"p2pwd on {self.name} ended: {self.last_words()}")
            try:
                return self.get("/v1/status")
            except Unreachable:
                time.sleep(0.02)
        raise LabError(f"p2pwd on {self.name} does not answer: {self.last_words()}")

    def get(self, target):
        return json.loads(self.text(target))

    def text(self, target):
        if self.state != "up":
            raise Unreachable(self.name)
        connection = UnixConnection(os.path.join(self.state_folder, "api.sock"), self.ANSWER_SECONDS)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{self.name}: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise LabError(f"{self.name}: GET {target}: {answer.status} {body[:200]!r}")
        return body.decode()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.state = "down"

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)  # its swarm's process is of the same group
        self.state = "paused"

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)
        self.state = "up"

    def check_running(self):
        if self.state == "up" and self.process.poll() is not None:
            self.state = "down"
            raise LabError(f"p2pwd on {self.name} ended by itself ({self.process.returncode}): {self.last_words()}")

    def last_words(self):
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
                return " / ".join(line.strip() for line in file.readlines()[-4:]) or "nothing in its log"
        except FileNotFoundError:
            return "no log"


class Seed:
    """`p2pw seed` on the trainer's machine."""

    def __init__(self, trainer, network, checkpoint, folder, *options):
        self.output = os.path.join(folder, "seed.out")
        self.errors = os.path.join(folder, "seed.err")
        with open(self.output, "wb") as out, open(self.errors, "wb") as err:
            self.process = network.start(
                trainer.node, trainer.command("seed", checkpoint, "--channel", CHANNEL, *options), stdout=out, stderr=err)

    def done(self):
        return self.process.poll() is not None

    def lines(self):
        with open(self.output, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.startswith("{") and line.endswith("\n")]

    def reply(self):
        lines = self.lines()
        return lines[-1] if lines else {}

    def failed(self):
        return self.process.returncode not in (None, 0)

    def reason(self):
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read().strip() or f"exit code {self.process.returncode}"

    def end(self):
        if not self.done():
            self.process.kill()
            self.process.wait()


def terminate(processes, seconds=5):
    """SIGTERM to all, then SIGKILL to those that do not end."""
    running = [process for process in processes if process and process.poll() is None]
    for process in running:
        process.send_signal(signal.SIGCONT)
        process.terminate()
    end = time.monotonic() + seconds
    for process in running:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
