"""One scenario, from an empty network to the numbers of one run."""

import os
import time
from dataclasses import dataclass

from . import bare, netem, payload, report as reports, tree as trees
from .daemons import Seed
from .faults import Faults
from .fleet import Fleet
from .host import LabError
from .network import Network
from .pump import Pump
from .watch import FirstRead, LastBulk, Reading, busy_seconds, usage

POLL_SECONDS = 0.1
SELDOM_SECONDS = 0.25  # while nothing hangs on the answers: polling takes CPU from what is measured; logs have exact times
# Shown as they are, without their "p2pw_" and "_total".
METRICS = ("p2pw_gateway_changes_total", "p2pw_slow_gateways_total", "p2pw_stalls_total", "p2pw_lost_bytes_total",
           "p2pw_swarm_redundant_bytes_total")
SETTLE_SECONDS = 60.0  # after the warm-up, at most
RTT_TOLERANCE = 0.1  # of what was asked, and 2 ms


@dataclass
class Binaries:
    p2pw: str
    p2pwd: str
    series: str
    pump: str
    slow_disk: str

    @staticmethod
    def of(build, slow_disks):
        at = [os.path.join(build, "bin", name) for name in ("p2pw", "p2pwd", "p2pw-series", "p2pw-tcp-pump")]
        at.append(os.path.join(build, "lib", "p2pw-slow-disk.so"))
        for path in at if slow_disks else at[:-1]:
            if not os.access(path, os.X_OK):
                raise LabError(f"{path} is not there: build first (cmake --preset release && cmake --build build)")
        return Binaries(*at)


@dataclass
class Published:
    """One `p2pw seed`."""

    number: int
    checkpoint: str
    seed: Seed | None = None
    first_read: FirstRead | None = None
    began: float = 0.0  # wall clock
    reading: Reading | None = None
    dead: bool = False

    def start_of_clock(self):
        return self.first_read.at if self.first_read and self.first_read.at else self.began


class Run:
    def __init__(self, scenario, binaries, folder, report):
        self.scenario = scenario
        self.binaries = binaries
        self.folder = folder
        self.report = report
        self.network = Network(scenario, folder)
        self.fleet = None
        self.faults = None
        self.versions = []
        self.complete = False
        self._watchers = []

    def execute(self):
        try:
            self._prepare()
            self._measured()
            return reports.assemble(self)
        except LabError:
            if self.fleet:
                self.fleet.keep_answers()
            raise
        finally:
            self._close()

    def _prepare(self):
        scenario = self.scenario
        self.network.open()
        self.report(f"{len(self.network.hosts)} machines in {len(scenario.regions)} regions, "
                    f"{'this kernel’s netem' if self.network.on_host_kernel else 'netem in a user-mode-linux router'}")
        self.sites = self._sites()
        self.pump = Pump(self.network, self.binaries.pump, self.sites.values())
        self._check_round_trips()
        self.series = payload.Series(scenario.payload, self.folder, self.binaries.series, int(scenario.expect_dead))
        self.fleet = Fleet(self.network, scenario, self.binaries, self.folder, self.report)
        self.fleet.start()
        self.faults = Faults(scenario, self.network, self.fleet, self.report)
        self.report(f"{len(self.fleet.daemons)} daemons are up; warming up")
        self._warm_up()

    def _sites(self):
        """One machine in each region that has any: {region index: host}."""
        sites = {}
        for node in self.network.hosts:
            sites.setdefault(node.access, node)
        return sites

    def _check_round_trips(self):
        first = self.sites[0]
        for index, site in self.sites.items():
            if index == 0:
                continue
            asked = 2 * self.scenario.delay_us(0, index) / 1e6
            measured = min(self.pump.ping(first, site, 10) for _ in range(2))
            if abs(measured - asked) > asked * RTT_TOLERANCE + 0.002:
                raise LabError(f"round trip {first.name} - {site.name} is {measured * 1e3:.1f} ms, asked "
                               f"{asked * 1e3:.1f}: is this machine overloaded?")

    def _publish(self, number, checkpoint, *options):
        version = Published(number, checkpoint)
        version.first_read = FirstRead(checkpoint)
        version.began = time.time()
        version.seed = Seed(self.fleet.trainer, self.network, checkpoint, self.folder, "--version", str(number), *options)
        self.fleet.usage.watch("seed", version.seed.process.pid)
        version.reading = Reading(version.seed.process.pid)
        self._watchers.append(version.reading)
        return version

    def _warm_up(self):
        version = self._publish(1, self.series.warm_up)
        end = time.monotonic() + self.scenario.timeout_seconds
        while not (version.seed.done() and self._everyone_has(version)):
            self._must_go_on(version, end, "warm-up")
            self.fleet.poll()
            time.sleep(POLL_SECONDS)
        if version.seed.failed():
            raise LabError(f"seed of the warm-up: {version.seed.reason()}")
        self._settle(version)

    def _settle(self, version):
        """Until nobody copies or certifies the warm-up any more: the next version of a real run comes a minute later."""
        end = time.monotonic() + SETTLE_SECONDS
        while busy := [d.name for d in self.fleet.live_nodes() if not self.fleet.settled(d.name, version.number)]:
            if time.monotonic() > end:
                self.report(f"still busy with version {version.number} after {SETTLE_SECONDS:g} s: {', '.join(busy)}")
                return
            self.fleet.poll()
            time.sleep(POLL_SECONDS)

    def _must_go_on(self, version, end, what):
        if time.monotonic() > end:
            raise LabError(f"{what}: version {version.number} is not complete after {self.scenario.timeout_seconds:g} s; "
                           f"without it: {', '.join(self._without(version)) or 'nobody'}")
        if version.seed.done() and version.seed.failed() and not version.dead:
            raise LabError(f"{what}: seed of version {version.number}: {version.seed.reason()}")

    def _without(self, version):
        return [d.name for d in self.fleet.live_nodes() if self.fleet.staged_at(d.name, version.number) is None]

    def _everyone_has(self, version):
        return not self._without(version)

    def _measured(self):
        self._begin_counting()
        options = ["--certify-every", str(self.scenario.payload.certify_every)]
        options += ["--kind", "anchor"] if self.scenario.payload.kind == "anchor" else []
        todo = list(enumerate(self.series.measured, start=2))
        self._late = {name: at for name, at in self._late_starts()}
        self.began = time.time()
        end = time.monotonic() + self.scenario.timeout_seconds
        next_at = 0.0
        while True:
            since = time.time() - self.began
            if todo and self._free() and since >= next_at:
                number, checkpoint = todo.pop(0)
                if self.versions and self.versions[-1].dead:
                    self._begin_counting()  # what a dead version cost is not the next one's
                self.versions.append(self._publish(number, checkpoint, *options))
                next_at += self.scenario.payload.interval_seconds
            self._step(since)
            if not todo and not self._late and not self.faults.pending() and self._finished() and self._late_are_sure():
                self.complete = True
                break
            if time.monotonic() > end:
                self._give_up()
                break
            time.sleep(POLL_SECONDS / 2 if self.faults.pending() else SELDOM_SECONDS)
        self._end_counting()

    def _free(self):
        """Whether the next version may be seeded now."""
        if not self.versions:
            return True
        last = self.versions[-1]
        if not last.seed.done() or self.fleet.trainer.state != "up":
            return False
        if "trainer" in self.faults.hit and not {d.name for d in self.fleet.live_nodes()} <= self.fleet.seen_by_trainer():
            return False
        return last.dead or self.scenario.payload.interval_seconds > 0 or self._everyone_has(last)

    def _finished(self):
        last = self.versions[-1]
        return last.seed.done() and self._everyone_has(last)

    def _late_are_sure(self):
        """Whether whoever joined late has certified itself, where there is a certificate to expect."""
        every = self.scenario.payload.certify_every
        return self.versions[-1].number % every != 0 or all(
            d.name in self.fleet.certified for d in self.fleet.live_nodes() if self.fleet.late(d.name))

    def _step(self, since):
        for name in [n for n, at in self._late.items() if since >= at]:
            del self._late[name]
            self.report(f"{name} joins")
            self.fleet.join(self.fleet.daemons[name])
        self.fleet.poll()
        last = self.versions[-1]
        self.faults.step(last.number, since)
        if last.seed.done() and last.seed.failed() and not last.dead:
            if "trainer" not in self.faults.hit:
                raise LabError(f"seed of version {last.number}: {last.seed.reason()}")
            last.dead = self.scenario.expect_dead
        self.fleet.check()

    def _late_starts(self):
        for daemon in self.fleet.daemons.values():
            region = next(r for r in self.scenario.regions if r.name == daemon.region)
            at = self.scenario.late_nodes.get(daemon.name, region.joins_at_seconds)
            if self.fleet.late(daemon.name):
                yield daemon.name, at

    def _give_up(self):
        last = self.versions[-1]
        self.report(f"given up after {self.scenario.timeout_seconds:g} s; without version {last.number}: "
                    + (", ".join(self._without(last)) or "nobody; the seed has not returned"))
        for daemon in self.fleet.daemons.values():
            self.report(f"  {daemon.name} ({daemon.state}): {daemon.last_words()}")

    def _begin_counting(self):
        for watcher in self._watchers:
            watcher.close()
        self.fleet.poll()
        self.fleet.usage.begin()
        self._busy_before = self._others_busy()
        self.metrics_before = self.fleet.metrics(METRICS)
        self.control_before = self.fleet.ledger.control_bytes()
        self.payload_into_before = {r.name: self.fleet.ledger.payload_into(r.name) for r in self.scenario.regions}
        self.control_into_before = {r.name: self.fleet.ledger.control_into(r.name) for r in self.scenario.regions}
        self.received_before = self.fleet.ledger.link_payload()
        self.retransmitted_before = self.network.retransmitted_segments()
        self.traffic_before = self.network.traffic()
        self.bulk = {index: LastBulk(self.network.bridge(index)) for index in self.sites}
        self._watchers = list(self.bulk.values())

    def _end_counting(self):
        self.fleet.poll()
        after = self.network.traffic()
        self.traffic = {name: tuple(now - old for now, old in zip(after[name], self.traffic_before[name])) for name in after}
        self.retransmitted = (self.network.retransmitted_segments() - self.retransmitted_before) * netem.FULL_PAYLOAD
        self.cpu = self.fleet.usage.cpu_seconds()
        self.fleet.keep_answers()
        busy, there = (now - old for now, old in zip(self._others_busy(), self._busy_before))
        self.others = max(0.0, busy / there)
        self.metrics = self._metrics_grown()
        self.congestion = self.network.congestion_of_bulk()
        for watcher in self._watchers:
            watcher.close()
        self._watchers = []

    def _metrics_grown(self):
        grown = {name.removeprefix("p2pw_").removesuffix("_total"): 0 for name in METRICS}
        for (daemon, name), value in self.fleet.metrics(METRICS).items():
            before = self.metrics_before.get((daemon, name), 0)
            grown[name.removeprefix("p2pw_").removesuffix("_total")] += int(value - before if value >= before else value)
        return grown

    def _others_busy(self):
        """(CPU seconds of what is not ours, CPU seconds there were), both since some start."""
        used, there = busy_seconds()
        ours = [os.getpid(), *([self.network.router.pid()] if not self.network.on_host_kernel else [])]
        mine = sum(now[1] for now in map(usage, ours) if now)
        return used - mine - sum(self.fleet.usage.cpu_seconds().values()), there

    def verify(self):
        """{node: what differs}; empty words mean bit-identical with the last version."""
        last = self.versions[-1]
        found = {}
        for daemon in self.fleet.live_nodes():
            current = self.fleet.current.get(daemon.name, "")
            found[daemon.name] = payload.difference(last.checkpoint, current) if current else "no current"
        return found

    def bare(self, payload_bytes):
        """After the daemons have ended, so that nothing else is on the wire."""
        tree = trees.best(self.scenario, **self._tree_shape())
        if not trees.wan_edges(tree):
            return None
        return bare.measure(self.network, self.pump, self.sites, tree, payload_bytes, self.congestion, self.report)

    def _tree_shape(self):
        asked = self.scenario.config.get("tree", {})
        return {key: asked[key] for key in ("root_children", "fan_out") if key in asked}

    def _close(self):
        for watcher in self._watchers:
            watcher.close()
        if self.versions and self.versions[-1].seed:
            self.versions[-1].seed.end()
        if self.fleet:
            self.fleet.close()
        self.network.close()
