"""Talk to the p2pwd of this machine: publish checkpoints, wait for the fleet, watch it.

One file, Python 3.8 or later, standard library only: copy it beside your script, or install the Debian package.

    import p2pw

    fleet = p2pw.Client()                            # /etc/p2pw/p2pw.toml, or $P2PW_CONFIG
    published = fleet.seed("checkpoints/step_100", channel="policy", step=100)
    fleet.wait(channel="policy", version=published["version"], active="95%", timeout=600)
    for node in fleet.status()["nodes"]:
        print(node["name"], node["version_active"], node["state"], node["why"])
    for event in fleet.events(channel="policy"):     # for ever; tells gaps
        print(event)

Every failure is a p2pw.Error with `code` (as in the JSON of the command line) and `exit_code`.

seed() and wait() run the program `p2pw`, which signs with the publisher's key; the others ask the daemon's unix socket.
A Client may be used by several threads.
"""

import http.client
import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse

__all__ = ["Client", "Error", "Gap", "Publishing"]

CONFIG = "/etc/p2pw/p2pw.toml"
EXIT_CODES = {1: "failed", 2: "usage", 3: "unreachable", 4: "integrity", 5: "not_found", 6: "timed_out", 7: "busy",
              130: "interrupted"}


class Error(Exception):
    """What went wrong: `code` is one of EXIT_CODES' words or a finer one, `exit_code` that of the command line."""

    def __init__(self, message, code="failed", exit_code=1, answer=None):
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code
        self.answer = answer or {}  # what was known when it failed, for example how many nodes were active


class Gap(dict):
    """Stands among the events where some are missing: `lost` of them, or all up to now when `restarted`."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Publishing(threading.Thread):
    """A seed in the background: result() waits for it and returns its answer, or raises its Error."""

    def __init__(self, work):
        super().__init__(daemon=False)  # the interpreter waits for it: a half published version helps nobody
        self._work = work
        self._answer = None
        self._error = None
        self.start()

    def run(self):
        try:
            self._answer = self._work()
        except BaseException as error:  # handed to whoever asks
            self._error = error

    def done(self):
        return not self.is_alive()

    def result(self, timeout=None):
        self.join(timeout)
        if self.is_alive():
            raise Error("the seed still runs", "timed_out", 6)
        if self._error is not None:
            raise self._error
        return self._answer


class Client:
    """`config` and `state` mean the same as --config and --state of the command line; `program` is the command itself."""

    def __init__(self, config=None, state=None, program="p2pw"):
        self.config, self.state, self.program = config, state, program
        self._socket = None

    # Publishing and waiting.

    def seed(self, directory, channel=None, step=None, wait=True, wait_active=None, timeout=None, **more):
        """Publishes a folder; returns when the local daemon has it. `wait`: for a fleet that is two versions behind, rather
        than Error("busy"). `wait_active`: like "95%", then also until that share of the nodes serves it. `more`: further
        options by their long names, as in kind="anchor". Answer: the keys of `p2pw seed --json`."""
        return self._run("seed", [os.fspath(directory)], channel=channel, step=step, wait=wait, wait_active=wait_active,
                         timeout=timeout, **more)

    def seed_in_background(self, directory, **options):
        """The same on a thread; returns a Publishing at once."""
        return Publishing(lambda: self.seed(directory, **options))

    def wait(self, channel=None, version=None, active="100%", timeout=600, **more):
        """Until that share of the nodes serves the version; Error("timed_out") with `answer` when they do not."""
        return self._run("wait", [], channel=channel, version=version, active=active, timeout=timeout, **more)

    # Asking the daemon.

    def status(self):
        """This node and the fleet: `channels`, `nodes`, `links`, `copies`."""
        return self.get("/v1/status")

    def versions(self, channel, limit=100):
        return self.get(f"/v1/channels/{urllib.parse.quote(channel, safe='')}/versions?limit={limit}")["versions"]

    def timeline(self, channel, version):
        return self.get(f"/v1/channels/{urllib.parse.quote(channel, safe='')}/timeline?version={version}")

    def newest(self, channel):
        """The newest sealed version with its `step`, or None: where a training that was cut short goes on."""
        for version in self.versions(channel, 8):
            if version["sealed"]:
                return version
        return None

    def current(self, channel):
        """The folder of the checkpoint in use on this machine, or None."""
        for entry in self.status()["channels"]:
            if entry["channel"] == channel and entry["current"]:
                return os.path.realpath(entry["current"])
        return None

    def events(self, channel="", after=0, run=0, follow=True, patience=20):
        """Yields events with rising `id`; a Gap where some are missing. `after` and `run` go on where an earlier call ended:
        each event carries its `run`. With `follow` for ever, over restarts of the daemon; else until the newest."""
        while True:
            query = urllib.parse.urlencode({"channel": channel, "after": after, "run": run, "limit": 1000,
                                            "wait": patience if follow else 0})
            try:
                reply = self.get("/v1/log?" + query, timeout=patience + 30)
            except Error as error:
                if not follow or run == 0 or error.code != "unreachable":
                    raise
                time.sleep(0.5)  # it is being restarted
                continue
            restarted = run != 0 and reply["run"] != run
            if restarted or (reply["lost"] and after):
                yield Gap(lost=reply["lost"], restarted=restarted, after=after, run=reply["run"])
            for entry in reply["entries"]:
                yield dict(entry, run=reply["run"])
            if not follow and reply["next"] == after:
                return
            after, run = reply["next"], reply["run"]

    def get(self, target, timeout=60):
        connection = UnixConnection(self._socket_path(), timeout)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        except OSError as error:
            raise Error(f"no p2pwd answers at {self._socket_path()} ({error}): start it, or name the right one with "
                        "Client(config=...)", "unreachable", 3) from error
        finally:
            connection.close()
        value = json.loads(body)
        if status != 200:
            raise Error(value["error"]["message"], value["error"]["code"], 1)
        return value

    # How.

    def _common(self):
        return (["--config", os.fspath(self.config)] if self.config else []) + (
            ["--state", os.fspath(self.state)] if self.state else [])

    def _run(self, verb, words, **options):
        command = [self.program, verb, *words, "--json", "--quiet", *self._common()]
        for name, value in options.items():
            if value is None or value is False:
                continue
            command.append("--" + name.replace("_", "-"))
            if value is not True:
                command.append(str(value))
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Error(f"cannot run {self.program}: {error.strerror}; is it in PATH?", "failed", 1) from error
        lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("{")]
        answer = json.loads(lines[-1]) if lines else {}
        if done.returncode == 0:
            return answer
        error = answer.pop("error", {})
        reason = error.get("message") or done.stderr.decode("utf-8", "replace").strip() or "no reason given"
        raise Error(reason, error.get("code", EXIT_CODES.get(done.returncode, "failed")), done.returncode, answer)

    def _socket_path(self):
        if self._socket is None:
            if self.state:
                self._socket = os.path.join(self.state, "api.sock")
            else:
                self._socket = self._configured_socket()
        return self._socket

    def _configured_socket(self):
        """`p2pw config` reads the file and prints what is in force."""
        config = self._run("config", [])
        path = config.get("api_socket")
        if not path:
            raise Error("p2pw config names no api_socket", "failed", 1)
        return path
