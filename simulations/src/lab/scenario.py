"""Scenario files: simulations/scenarios/NAME.toml. simulations/README.md lists every key.

Everything is checked when the file is read, so that a typing error costs no emulation.
"""

import os
import re
import tomllib
from dataclasses import dataclass, field

from .host import LabError

FAULTS = ("kill", "stop", "cut", "start")


@dataclass(frozen=True)
class Access:
    """One region's way to the WAN."""

    up_bits: int
    down_bits: int
    delay_us: int
    loss_percent: float = 0.0


@dataclass(frozen=True)
class Region:
    name: str
    nodes: int
    access: Access
    joins_at_seconds: float = 0.0  # after the first measured seed; 0 = from the start


@dataclass(frozen=True)
class Payload:
    """`anchor`: the measured version is an anchor. `delta`: an anchor goes ahead, the measured ones are deltas."""

    kind: str = "anchor"
    checkpoint_bytes: int = 1 << 20
    changed_percent: float = 2.0
    versions: int = 1
    interval_seconds: float = 0.0  # between the starts of two seeds; 0 = one after the other
    slots: str = "memory"          # or "disk"
    warm_up: str = "small"         # "small": 1 MiB goes ahead, unmeasured; "full": a whole checkpoint of the same size
    certify_every: int = 25        # versions that this divides are certified
    travels_bytes: int = 1 << 20   # about what one version weighs on the wire, for faults at a share of it


@dataclass(frozen=True)
class Fault:
    do: str
    target: str
    at_share: float | None = None      # of the measured version's bytes into the target's region
    at_seconds: float | None = None    # after the first measured seed
    at_event: str | None = None        # "delivered": every chunk is with a live gateway and the seal is out
    for_seconds: float | None = None   # undone after that time: continued, healed, started again


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    regions: tuple
    payload: Payload
    faults: tuple = ()
    lan: dict = field(default_factory=dict)
    disk: dict = field(default_factory=dict)
    congestion: str = ""               # empty: the system's
    late_nodes: dict = field(default_factory=dict)  # node -> seconds after the first measured seed
    expect_dead: bool = False          # the measured version dies with its trainer; a further one must complete
    config: dict = field(default_factory=dict)      # further lines of every daemon's configuration
    timeout_seconds: float = 180.0

    def lossy(self):
        return any(region.access.loss_percent for region in self.regions)

    def lan_bits(self, node):
        return int(self.lan.get(node, 0) * 1_000_000)

    def remote(self):
        return [region for region in self.regions[1:]]

    def delay_us(self, a, b):
        """One way between two regions by index."""
        return 0 if a == b else self.regions[a].access.delay_us + self.regions[b].access.delay_us


def _take(table, where, **wanted):
    """Picks the wanted keys (name = (type, default)); whatever else the table has is an error."""
    values = {}
    for name, (kind, default) in wanted.items():
        value = table.pop(name, default)
        if kind is float and isinstance(value, int):
            value = float(value)
        if value is not None and not isinstance(value, kind):
            raise LabError(f"{where}: {name} is {value!r}, not a {kind.__name__}")
        values[name] = value
    if table:
        raise LabError(f"{where}: there is no key {', '.join(sorted(table))}; known are {', '.join(wanted)}")
    return values


def _region(table, where):
    got = _take(
        table, where, name=(str, ""), nodes=(int, 0), up_mbit=(float, 200.0), down_mbit=(float, 200.0),
        delay_ms=(float, 0.0), loss_percent=(float, 0.0), joins_at_s=(float, 0.0),
    )
    if not re.fullmatch(r"[a-z0-9]{1,8}", got["name"]):
        raise LabError(f"{where}: name {got['name']!r} is not 1 to 8 small letters and digits")
    if not 0 <= got["nodes"] <= 200 or got["delay_ms"] < 0 or not 0 <= got["loss_percent"] < 100:
        raise LabError(f"{where}: nodes, delay_ms or loss_percent out of range")
    access = Access(int(got["up_mbit"] * 1e6), int(got["down_mbit"] * 1e6), round(got["delay_ms"] * 1000),
                    got["loss_percent"])
    return Region(got["name"], got["nodes"], access, got["joins_at_s"])


def _fault(table, where):
    got = _take(
        table, where, do=(str, ""), target=(str, ""), at_share=(float, None), at_s=(float, None), at=(str, None),
        for_s=(float, None),
    )
    if got["do"] not in FAULTS:
        raise LabError(f"{where}: do is {got['do']!r}, not one of {', '.join(FAULTS)}")
    if sum(got[key] is not None for key in ("at_share", "at_s", "at")) != 1:
        raise LabError(f"{where}: needs exactly one of at_share, at_s, at")
    return Fault(got["do"], got["target"], got["at_share"], got["at_s"], got["at"], got["for_s"])


def _payload(table, where):
    got = _take(
        table, where, kind=(str, "anchor"), checkpoint_mib=(float, 1.0), changed_percent=(float, 2.0),
        versions=(int, 1), interval_s=(float, 0.0), slots=(str, "memory"), warm_up=(str, "small"), travels_mib=(float, 0.0),
        certify_every=(int, 25),
    )
    if got["kind"] not in ("anchor", "delta") or got["slots"] not in ("memory", "disk"):
        raise LabError(f"{where}: kind is anchor or delta, slots is memory or disk")
    if got["warm_up"] not in ("small", "full") or (got["kind"] == "delta" and got["warm_up"] == "small"):
        raise LabError(f"{where}: warm_up is small or full; a delta needs full, its parent")
    size = int(got["checkpoint_mib"] * (1 << 20))
    travels = int(got["travels_mib"] * (1 << 20)) or size
    return Payload(got["kind"], size, got["changed_percent"], got["versions"], got["interval_s"], got["slots"],
                   got["warm_up"], got["certify_every"], travels)


def parse(text, name):
    """Of a file's text; `like` names the scenario whose keys and tables hold where this one has none of its own."""
    document = _document(text, name)
    base = document.pop("like", None)
    if base is not None:
        document = {**_document(_read(base), base), **document}
    return _scenario(document, name)


def _document(text, name):
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"scenario {name}: {error}") from error


def _scenario(document, name):
    got = _take(
        document, f"scenario {name}", about=(str, ""), region=(list, []), payload=(dict, {}), fault=(list, []),
        lan_mbit=(dict, {}), disk_mb_per_s=(dict, {}), congestion=(str, ""), late_nodes_s=(dict, {}),
        expect_dead=(bool, False), config=(dict, {}), timeout_s=(float, 180.0),
    )
    regions = tuple(_region(dict(table), f"scenario {name}, region {i}") for i, table in enumerate(got["region"]))
    if not regions or len({region.name for region in regions}) != len(regions):
        raise LabError(f"scenario {name}: needs regions, the trainer's first, each with a name of its own")
    return Scenario(
        name=name, about=got["about"], regions=regions, payload=_payload(dict(got["payload"]), f"scenario {name}, payload"),
        faults=tuple(_fault(dict(table), f"scenario {name}, fault {i}") for i, table in enumerate(got["fault"])),
        lan=got["lan_mbit"], disk=got["disk_mb_per_s"], congestion=got["congestion"], late_nodes=got["late_nodes_s"],
        expect_dead=got["expect_dead"], config=got["config"], timeout_seconds=got["timeout_s"],
    )


def folder():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scenarios")


def _read(name):
    try:
        with open(os.path.join(folder(), f"{name}.toml"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError as error:
        known = sorted(entry[:-5] for entry in os.listdir(folder()) if entry.endswith(".toml"))
        raise LabError(f"there is no scenario {name}; there are {', '.join(known)}") from error


def load(name):
    """By its name in the folder, or from any file whose name ends with .toml."""
    if not name.endswith(".toml"):
        return parse(_read(name), name)
    try:
        with open(name, encoding="utf-8") as file:
            return parse(file.read(), os.path.basename(name)[:-5])
    except OSError as error:
        raise LabError(f"{name}: {error.strerror}") from error
