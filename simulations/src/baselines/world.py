"""One tool on one emulated network: folders, processes, the clock and the counters."""

import filecmp
import os
import subprocess
import time

from lab.host import LabError
from lab.network import Network

from .tools import PAYLOAD, READY_SECONDS

POLL_SECONDS = 0.005


class World:
    def __init__(self, scenario, folder, lt_node, size):
        self.folder = folder
        self.lt_node = lt_node
        self.network = Network(scenario, folder)
        self.trainer = self.network.hosts[0]
        self.nodes = self.network.hosts[1:]
        self.source_folder = self.scratch("source")
        self.size = size
        self._processes = []
        self._log = open(os.path.join(folder, "log"), "ab")

    def scratch(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def source(self):
        return os.path.join(self.source_folder, PAYLOAD)

    def target(self, node):
        return os.path.join(self.scratch(f"target-{node.name}"), PAYLOAD)

    def make_payload(self):
        with open(self.source(), "wb") as file:
            for _ in range(0, self.size, 1 << 20):
                file.write(os.urandom(min(1 << 20, self.size)))

    def make_torrent(self, *options):
        path = os.path.join(self.folder, "payload.torrent")
        subprocess.run([self.lt_node, "make", self.source(), path, *options], check=True, stdout=subprocess.DEVNULL)
        return path

    def start(self, node, command, stdout=None):
        environment = {**os.environ, "HOME": self.folder, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
        process = self.network.start(node, command, stdout=stdout or self._log, stderr=self._log, env=environment)
        self._processes.append(process)
        return process

    def wait(self, done, otherwise):
        end = time.monotonic() + READY_SECONDS
        while not done():
            if time.monotonic() > end:
                raise LabError(f"{otherwise} within {READY_SECONDS} s; the log ends: {self.last_words()}")
            time.sleep(0.02)

    def wait_for_port(self, node, port):
        def listens():
            return f":{port} " in self.network.output_of(node, ["ss", "-tlnH"])
        self.wait(listens, f"nothing listens on port {port} of {node.name}")

    def last_words(self):
        self._log.flush()
        with open(self._log.name, encoding="utf-8", errors="replace") as log:
            return " | ".join(log.read().splitlines()[-3:])

    def measure(self, tool, timeout_seconds):
        """Seconds of every node, and what crossed each access meanwhile."""
        tool.serve()
        before = self.network.traffic()
        began = time.time()
        clients = {node.name: tool.fetch(node) for node in self.nodes}
        end = time.monotonic() + timeout_seconds
        while not all([client.poll() for client in clients.values()]):
            if time.monotonic() > end:
                late = [name for name, client in clients.items() if client.done_at is None]
                raise LabError(f"not done after {timeout_seconds:g} s: {', '.join(late)}")
            time.sleep(POLL_SECONDS)
        after = self.network.traffic()
        seconds = {name: client.done_at - began for name, client in clients.items()}
        crossed = {name: tuple(now - old for now, old in zip(after[name], before[name])) for name in after}
        return seconds, crossed

    def identical(self):
        return all(filecmp.cmp(self.source(), self.target(node), shallow=False) for node in self.nodes)

    def close(self):
        for process in self._processes:
            process.kill()
            process.wait()
        self.network.close()
        self._log.close()
