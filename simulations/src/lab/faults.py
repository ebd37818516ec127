"""What goes wrong, and when. Each fault happens once; one with for_s is undone after that time."""

import time

from .host import LabError


class Faults:
    def __init__(self, scenario, network, fleet, report):
        self._network = network
        self._fleet = fleet
        self._report = report
        self._waiting = list(scenario.faults)
        self._undo = []  # (monotonic time, what, function)
        self._travels = scenario.payload.travels_bytes
        self.hit = {}    # name -> what was done to it, in the order of events

    def pending(self):
        return bool(self._waiting or self._undo)

    def step(self, version, since_seed):
        """Call often. `since_seed`: seconds since the first measured seed began."""
        for fault in [f for f in self._waiting if self._due(f, version, since_seed)]:
            self._waiting.remove(fault)
            self._do(fault)
        for entry in [e for e in self._undo if e[0] <= time.monotonic()]:
            self._undo.remove(entry)
            self._report(f"fault: {entry[1]}")
            entry[2]()

    def _due(self, fault, version, since_seed):
        if fault.at_seconds is not None:
            return since_seed >= fault.at_seconds
        if fault.at_share is not None:
            return self._share(fault, version) >= fault.at_share
        return self._delivered(version)

    def _share(self, fault, version):
        ledger = self._fleet.ledger
        if fault.target == "trainer":
            return ledger.payload_from("trainer", {version}) / self._travels
        return ledger.payload_into(self._region(fault.target), {version}) / self._travels

    def _region(self, target):
        if target.startswith("gateway:"):
            return target.split(":", 1)[1]
        if target in self._fleet.daemons:
            return self._fleet.daemons[target].region
        return target

    def _delivered(self, version):
        """The trainer has given everything away, gateways have received all of it, and the seal is known elsewhere."""
        ledger = self._fleet.ledger
        sent = ledger.payload_from("trainer", {version})
        elsewhere = [at for name, at in self._fleet.sealed.items() if name != "trainer"]
        return bool(elsewhere) and max(elsewhere) >= version and 0 < ledger.used_bytes(version) <= sent and (
            self._fleet.trainer_idle())

    def _do(self, fault):
        if fault.do == "cut":
            self._report(f"fault: cut {fault.target} off")
            self._network.cut(fault.target)
            self._later(fault, f"heal {fault.target}", lambda: self._network.heal(fault.target))
            return
        daemon = self._daemon(fault.target)
        if daemon.state == "up" and not self._fleet.poll_one(daemon):  # its counters, while it can still be asked
            self._report(f"fault: {daemon.name} did not answer before; what it sent last is not counted")
        self._report(f"fault: {fault.do} {daemon.name} ({fault.target})")
        self.hit[daemon.name] = fault.do
        if fault.do == "kill":
            daemon.kill()
            self._later(fault, f"start {daemon.name} again", daemon.start)
        elif fault.do == "stop":
            daemon.pause()
            self._later(fault, f"continue {daemon.name}", daemon.resume)
        else:
            daemon.start()

    def _later(self, fault, what, function):
        if fault.for_seconds is not None:
            self._undo.append((time.monotonic() + fault.for_seconds, what, function))

    def _daemon(self, target):
        if target.startswith("gateway:"):
            return self._fleet.gateway_of(target.split(":", 1)[1])
        if target not in self._fleet.daemons:
            raise LabError(f"fault: there is no {target}")
        return self._fleet.daemons[target]
