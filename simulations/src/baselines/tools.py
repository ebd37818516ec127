"""The tools that people move big files with, each set up as its manual suggests for one file to many machines.

A tool has a name, the programs and the package that it needs, `serve()` for what the trainer runs before the clock
starts, and `fetch()`, which starts it on one node and returns how to see that this node has everything.
"""

import json
import os
import shutil
import sys
import time

from lab.host import LabError

PAYLOAD = "payload.bin"
READY_SECONDS = 60


class Client:
    """One node's tool at work. It is done when its process has ended, or when `marker` is there if it goes on seeding."""

    def __init__(self, process, marker=None):
        self.process = process
        self._marker = marker
        self.done_at = None

    def poll(self):
        if self.done_at is not None:
            return True
        if self._marker is None:
            if self.process.poll() is None:
                return False
            if self.process.returncode != 0:
                raise LabError(f"{self.process.args[4]} ended with exit code {self.process.returncode}")
            self.done_at = time.time()
            return True
        if os.path.exists(self._marker):
            self.done_at = os.stat(self._marker).st_mtime
            return True
        if self.process.poll() is not None:
            raise LabError(f"{self.process.args[4]} ended with exit code {self.process.returncode}")
        return False


class Tool:
    name = package = ""
    programs = ()

    def __init__(self, world):
        self.world = world

    @classmethod
    def missing(cls):
        """What to install; empty when everything is here."""
        paths = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        lacking = [program for program in cls.programs if not shutil.which(program, path=paths)]
        return f"{', '.join(lacking)} not installed (package {cls.package})" if lacking else ""

    def serve(self):
        raise NotImplementedError

    def fetch(self, node):
        raise NotImplementedError


class Http(Tool):
    name, package, programs = "http", "nginx-light, curl", ("nginx", "curl")
    PORT = 8080

    def serve(self):
        folder = self.world.scratch("nginx")
        temporary = "\n".join(f"  {kind}_temp_path {folder}/{kind};"
                              for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = f"""daemon off; master_process off; user root; pid {folder}/pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
{temporary}
  access_log off; sendfile on; tcp_nopush on;
  server {{ listen {self.world.trainer.address}:{self.PORT}; root {self.world.source_folder}; }}
}}
"""
        path = self.world.write(os.path.join(folder, "nginx.conf"), config)
        self.world.start(self.world.trainer, ["nginx", "-p", folder, "-c", path])
        self.world.wait_for_port(self.world.trainer, self.PORT)

    def fetch(self, node):
        url = f"http://{self.world.trainer.address}:{self.PORT}/{PAYLOAD}"
        return Client(self.world.start(node, ["curl", "-sS", "-f", "-o", self.world.target(node), url]))


class Rsync(Tool):
    name, package, programs = "rsync", "rsync", ("rsync",)
    PORT = 8730

    def serve(self):
        folder = self.world.scratch("rsyncd")
        config = f"""use chroot = no
uid = root
gid = root
lock file = {folder}/lock
[data]
path = {self.world.source_folder}
read only = yes
"""
        path = self.world.write(os.path.join(folder, "rsyncd.conf"), config)
        self.world.start(self.world.trainer, ["rsync", "--daemon", "--no-detach", f"--config={path}", f"--port={self.PORT}",
                                              f"--address={self.world.trainer.address}"])
        self.world.wait_for_port(self.world.trainer, self.PORT)

    def fetch(self, node):
        source = f"rsync://{self.world.trainer.address}:{self.PORT}/data/{PAYLOAD}"
        return Client(self.world.start(node, ["rsync", "-W", "--inplace", source, self.world.target(node)]))


class Torrent(Tool):
    """With a tracker at the trainer, for tools that cannot be told their peers."""

    TRACKER_PORT = 6969

    def track(self):
        address = self.world.trainer.address
        self.torrent = self.world.make_torrent("--v1", "--tracker", f"http://{address}:{self.TRACKER_PORT}/announce")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tracker.py")
        self._announces = os.path.join(self.world.folder, "announces")
        with open(self._announces, "wb") as out:
            self.world.start(self.world.trainer, [sys.executable, "-B", script, address, str(self.TRACKER_PORT)], stdout=out)
        self._wait_for_line("ready")

    def wait_for_seed(self):
        self._wait_for_line(f"{self.world.trainer.address} 0")

    def _wait_for_line(self, line):
        def there():
            with open(self._announces, encoding="ascii") as announces:
                return line in announces.read().splitlines()
        self.world.wait(there, f"{self.name}: no '{line}' from the tracker")

    def marker(self, node):
        """(path, a script that makes it): for the tools' own on-complete hooks."""
        path = os.path.join(self.world.scratch(f"done-{node.name}"), "done")
        script = self.world.write(f"{path}.sh", f"#!/bin/sh\n: > {path}\n")
        os.chmod(script, 0o755)
        return path, script


class Aria2(Torrent):
    name, package, programs = "aria2", "aria2", ("aria2c",)
    OPTIONS = ("--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--disable-ipv6=true",
               "--seed-ratio=0.0", "--file-allocation=none", "--listen-port=6881", "--quiet=true", "--no-conf=true",
               "--allow-overwrite=true")

    def _run(self, node, folder, *options):
        command = ["aria2c", *self.OPTIONS, f"--interface={node.address}", f"--dir={folder}", *options, self.torrent]
        return self.world.start(node, command)

    def serve(self):
        self.track()
        self._run(self.world.trainer, self.world.source_folder, "--check-integrity=true", "--bt-hash-check-seed=true")
        self.wait_for_seed()

    def fetch(self, node):
        path, script = self.marker(node)
        folder = os.path.dirname(self.world.target(node))
        return Client(self._run(node, folder, f"--on-bt-download-complete={script}"), path)


class Transmission(Torrent):
    name, package, programs = "transmission", "transmission-daemon", ("transmission-daemon",)

    def _run(self, node, folder, script=""):
        home = self.world.scratch(f"transmission-{node.name}")
        watched = self.world.scratch(f"watch-{node.name}")
        settings = {
            "bind-address-ipv4": node.address, "cache-size-mb": 32, "dht-enabled": False, "download-dir": folder,
            "download-queue-enabled": False, "encryption": 0, "incomplete-dir-enabled": False, "lpd-enabled": False,
            "peer-port": 51413, "pex-enabled": False, "port-forwarding-enabled": False, "preallocation": 0,
            "ratio-limit-enabled": False, "rpc-bind-address": "127.0.0.1", "seed-queue-enabled": False,
            "script-torrent-done-enabled": bool(script), "script-torrent-done-filename": script, "start-added-torrents": True,
            "upload-slots-per-torrent": 20, "utp-enabled": False, "watch-dir": watched, "watch-dir-enabled": True,
        }
        self.world.write(os.path.join(home, "settings.json"), json.dumps(settings))
        shutil.copy(self.torrent, watched)
        return self.world.start(node, ["transmission-daemon", "--foreground", "--config-dir", home])

    def serve(self):
        self.track()
        self._run(self.world.trainer, self.world.source_folder)
        self.wait_for_seed()

    def fetch(self, node):
        path, script = self.marker(node)
        return Client(self._run(node, os.path.dirname(self.world.target(node)), script), path)


class Libtorrent(Tool):
    """Everybody is told everybody's address: what a swarm across regions does by itself."""

    name, package = "libtorrent", "part of this build"
    PORT = 6881

    def _run(self, node, folder, *options, **output):
        # A node dials those before it, so that no two dial each other.
        hosts = self.world.network.hosts
        peers = [f"--peer={other.address}:{self.PORT}" for other in hosts[:hosts.index(node)]]
        command = [self.world.lt_node, "run", self.torrent, folder, node.address, str(self.PORT), *options, *peers]
        return self.world.start(node, command, **output)

    def serve(self):
        self.torrent = self.world.make_torrent()
        self._run(self.world.trainer, self.world.source_folder, "--seed")
        self.world.wait_for_port(self.world.trainer, self.PORT)

    def fetch(self, node):
        lines = os.path.join(self.world.folder, f"lt-{node.name}")
        with open(lines, "wb") as out:
            process = self._run(node, os.path.dirname(self.world.target(node)), stdout=out)
        return LineClient(process, lines)


class LineClient(Client):
    """Done when it has said so: p2pw-lt-node's second line."""

    def __init__(self, process, lines):
        super().__init__(process, marker=lines)
        self._lines = lines

    def poll(self):
        if self.done_at is None and self.process.poll() is not None:
            raise LabError(f"p2pw-lt-node ended with exit code {self.process.returncode}")
        if self.done_at is None:
            with open(self._lines, encoding="ascii") as lines:
                if '"seconds"' in lines.read():
                    self.done_at = time.time()
        return self.done_at is not None


TOOLS = {tool.name: tool for tool in (Http, Rsync, Aria2, Transmission, Libtorrent)}
