"""All daemons of a run together: starting them, and one picture of what they say."""

import os
import time

from .daemons import CHANNEL, Daemon, Unreachable, terminate
from .host import LabError
from .ledger import Ledger
from .watch import Usage


class Fleet:
    def __init__(self, network, scenario, binaries, folder, report):
        self._network = network
        self._scenario = scenario
        self._report = report
        self.usage = Usage()
        self.ledger = Ledger()
        self.daemons = {}
        self.reached = {}    # name -> [(version, wall clock staged)], rising
        self.seen = {}       # name -> set of versions ever staged or active
        self.current = {}    # name -> path
        self.sealed = {}     # name -> highest sealed version it knows
        self.first_chunk = {}  # (name, version) -> wall clock when its first chunk from the WAN had been checked
        self.certified = {}  # name -> (version, wall clock) certified last
        self.caught_up = {}  # name -> version that both of its slots have had last
        self.joined = {}     # name -> wall clock when a late node was started
        self.keys = {}       # name -> node key
        self._cursor = {}    # (name, life) -> id of the last log entry read
        self._token = None
        for node in network.hosts:
            self.daemons[node.name] = Daemon(network, node, binaries, os.path.join(folder, node.name), self.usage,
                                             scenario.disk.get(node.name, 0))

    @property
    def trainer(self):
        return self.daemons["trainer"]

    def late(self, name):
        region = next(r for r in self._scenario.regions if r.name == self.daemons[name].region)
        return name in self._scenario.late_nodes or region.joins_at_seconds > 0

    def start(self):
        trainer = self.trainer
        nodes = [d for d in self.daemons.values() if d is not trainer]
        trainer.cli("init", "--channel", CHANNEL, "--region", trainer.region, "--name", trainer.name,
                    "--address", trainer.node.address, "--state", trainer.state_folder)
        self._extend(trainer)
        trainer.start()
        trainer.wait_ready()
        self._token = trainer.cli("token", "--uses", str(max(1, len(nodes))))["token"]
        for daemon in nodes:
            if not self.late(daemon.name):
                self.join(daemon)
        self.wait_members([d.name for d in nodes if not self.late(d.name)])

    def join(self, daemon):
        daemon.cli("join", self._token, "--region", daemon.region, "--name", daemon.name,
                   "--address", daemon.node.address, "--state", daemon.state_folder)
        self._extend(daemon)
        self.joined[daemon.name] = time.time()
        daemon.start()
        daemon.wait_ready()

    def _extend(self, daemon):
        """The scenario's own lines of configuration: {section: {key: value}}."""
        with open(daemon.config, "a", encoding="utf-8") as file:
            for section, values in self._scenario.config.items():
                file.write(f"\n[{section}]\n")
                for key, value in values.items():
                    file.write(f"{key} = {_toml(value)}\n")

    def wait_members(self, names, seconds=30):
        """Until the trainer sees every one of these."""
        end = time.monotonic() + seconds
        missing = set(names)
        while time.monotonic() < end:
            missing = set(names) - self.seen_by_trainer()
            if not missing:
                return
            self.check()
            time.sleep(0.1)
        raise LabError(f"after {seconds} s the trainer does not see {', '.join(sorted(missing))}")

    def seen_by_trainer(self):
        """Names of the nodes that the trainer's daemon knows to be live; none while it does not answer."""
        try:
            nodes = self.trainer.get("/v1/status").get("nodes", [])
        except Unreachable:
            return set()
        return {node.get("name") for node in nodes if node.get("state") != "offline"}

    def check(self):
        for daemon in self.daemons.values():
            daemon.check_running()

    def poll(self):
        for daemon in self.daemons.values():
            self.poll_one(daemon)

    def poll_one(self, daemon):
        """False when it does not answer now."""
        try:
            status = daemon.get("/v1/status")
            self.keys[daemon.name] = status.get("node", "")
            self.ledger.update(daemon.name, daemon.region, status)
            self._read_log(daemon, status.get("started_ms", 0))
        except Unreachable:
            daemon.check_running()
            return False
        for channel in status.get("channels", []):
            if channel["channel"] != CHANNEL:
                continue
            self.sealed[daemon.name] = channel.get("version_sealed", 0)
            self.current[daemon.name] = channel.get("current", "")
            self._reach(daemon.name, channel.get("version_staged", 0), time.time())
            self.seen.setdefault(daemon.name, set()).update({channel["version_staged"], channel["version_active"]})
        return True

    def _read_log(self, daemon, life):
        """The daemon's own time of `staged` is exact; the poll only says "by now"."""
        key = (daemon.name, life)
        reply = daemon.get(f"/v1/log?channel={CHANNEL}&after={self._cursor.get(key, 0)}&limit=1000")
        for entry in reply.get("entries", []):
            self._cursor[key] = max(self._cursor.get(key, 0), entry["id"])
            if entry["event"] == "staged":
                self._reach(daemon.name, entry["version"], entry["at_ms"] / 1000)
            elif entry["event"] == "first-chunk":
                self.first_chunk.setdefault((daemon.name, entry["version"]), entry["at_ms"] / 1000)
            elif entry["event"] == "caught-up":
                self.caught_up[daemon.name] = entry["version"]
            elif entry["event"] == "certified":
                self.certified[daemon.name] = (entry["version"], entry["at_ms"] / 1000)

    def _reach(self, name, version, at):
        reached = self.reached.setdefault(name, [])
        if version > (reached[-1][0] if reached else 0):
            reached.append((version, at))

    def staged_at(self, name, version):
        """When this node first had this version or a higher one."""
        return next((at for have, at in self.reached.get(name, []) if have >= version), None)

    def settled(self, name, version):
        """Nothing is left to do for a certified version: it is in both slots, and checked."""
        return self.caught_up.get(name, 0) >= version and self.certified.get(name, (0, 0))[0] >= version

    def live_nodes(self):
        """Rollout nodes that run; a paused one is as good as dead."""
        return [d for d in self.daemons.values() if d is not self.trainer and d.state == "up"]

    def gateway_of(self, region):
        """The node of the region that has taken most from the WAN so far."""
        received = self.ledger.link_payload()
        nodes = [d for d in self.live_nodes() if d.region == region]
        if not nodes:
            raise LabError(f"no live node in {region}")
        return max(nodes, key=lambda d: received.get(d.name, 0))

    def metrics(self, names):
        """{(daemon, name): value}, labels summed, of daemons that answer."""
        found = {}
        for daemon in self.daemons.values():
            try:
                lines = daemon.text("/metrics").splitlines()
            except Unreachable:
                continue
            for name in names:
                found[(daemon.name, name)] = sum(
                    float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{")))
        return found

    def keep_answers(self):
        """What the daemons that answer say last, beside their logs."""
        for daemon in self.daemons.values():
            for target, name in (("/v1/status", "status.json"), ("/v1/log?limit=100000", "events.json"),
                                 ("/v1/peers", "peers.json"), ("/metrics", "metrics.txt")):
                try:
                    text = daemon.text(target)
                except (Unreachable, LabError):
                    break
                with open(os.path.join(daemon.folder, name), "w", encoding="utf-8") as file:
                    file.write(text)

    def trainer_idle(self):
        """All that the trainer ever wrote to links has been received by the other end."""
        key = self.keys.get("trainer")
        sent = self.ledger.sent_over_links("trainer")
        received = self.ledger.received_from(key)
        return sent > 0 and received >= sent

    def close(self):
        terminate([daemon.process for daemon in self.daemons.values()])
        self.usage.close()


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
