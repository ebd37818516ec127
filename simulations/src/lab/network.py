"""The emulated network: a namespace per node, a bridge per region, one WAN router between them.

Addresses: access i is 10.77.i.0/24, its router .1, its nodes from .10 on; the trainer is 10.77.0.10.
"""

import json
import os
import subprocess
from dataclasses import dataclass

from . import host
from .host import LabError, run
from .private import die_with_parent
from .router import WAN, HostRouter, UmlRouter

PACKAGED_SYSCTL = os.path.join(os.path.dirname(__file__), "..", "..", "..", "daemon", "packaging", "p2pw.sysctl")
CONGESTION_CONTROLS = ("bbr", "cubic", "reno", "dctcp", "htcp", "westwood", "vegas", "bbr2", "bbr3")
OFFLOADS = ("tso", "off", "gso", "off", "gro", "off")


@dataclass(frozen=True)
class Host:
    """One machine: the trainer's or a node's."""

    name: str
    region: str
    access: int
    address: str
    mac: str

    @property
    def namespace(self):
        return self.name


def packaged_settings():
    """What the package sets for TCP on every machine: {name below /proc/sys: value}. The other settings are the host's."""
    settings = {}
    with open(PACKAGED_SYSCTL, encoding="utf-8") as file:
        for line in file:
            name, separator, value = line.partition("=")
            if separator and name.strip().startswith("net.ipv4."):
                settings[name.strip().replace(".", "/")] = value.strip()
    return settings


def plan(scenario):
    """All hosts of the scenario, the trainer's first."""
    hosts = []
    for index, region in enumerate(scenario.regions):
        names = ["trainer"] if index == 0 else []
        names += [f"{region.name}-n{number}" for number in range(1, region.nodes + 1)]
        for number, name in enumerate(names, start=10):
            hosts.append(Host(name, region.name, index, f"10.77.{index}.{number}", f"02:77:00:00:{index:02x}:{number:02x}"))
    return hosts


class Network:
    def __init__(self, scenario, folder):
        self.scenario = scenario
        self.hosts = plan(scenario)
        self._folder = folder
        self._merge = not scenario.lossy()
        self.router = None

    def open(self):
        count = len(self.scenario.regions)
        macs = [f"02:77:00:00:{index:02x}:01" for index in range(count)]
        run("ip", "netns", "add", WAN)
        self.on_host_kernel = host.has_netem(WAN)
        if self.on_host_kernel:
            self.router = HostRouter(count)
            for index, mac in enumerate(macs):
                self.router.set_mac(index, mac)
        else:
            self.router = UmlRouter(self._folder, macs, self._merge)
        self._build_regions(macs)
        if not self.on_host_kernel:
            self.router.wait_booted()
        neighbours = [[(h.address, h.mac) for h in self.hosts if h.access == index] for index in range(count)]
        self.router.configure(
            [region.access for region in self.scenario.regions],
            [f"10.77.{index}.1/24" for index in range(count)],
            neighbours,
        )
        for index in range(count):
            bridge = self.bridge(index)
            port = self.router.port(index, bridge)
            run("ip", "-n", bridge, "link", "set", port, "master", "bridge", "up")
            self._offloads(bridge, port)

    def bridge(self, index):
        return f"bridge{index}"

    def wan_port(self, index):
        return f"port{index}"

    def lan_port(self, node):
        """The end of this machine's cable on its region's bridge."""
        return f"node{self.hosts.index(node)}"

    def _build_regions(self, macs):
        for index in range(len(self.scenario.regions)):
            bridge = self.bridge(index)
            run("ip", "netns", "add", bridge)
            self._quiet(bridge)
            run("ip", "-n", bridge, "-batch", "-", input="link add bridge type bridge\nlink set bridge up\n")
        for node in self.hosts:
            bridge = self.bridge(node.access)
            run("ip", "netns", "add", node.namespace)
            self._quiet(node.namespace)
            port = self.lan_port(node)
            run("ip", "-n", bridge, "-batch", "-", input="\n".join((
                f"link add {port} type veth peer name eth0 address {node.mac} netns {node.namespace}",
                f"link set {port} txqueuelen 20000 master bridge up",
            )))
            router = f"10.77.{node.access}.1"
            run("ip", "-n", node.namespace, "-batch", "-", input="\n".join((
                "link set lo up",
                "link set eth0 txqueuelen 20000 up",
                f"address add {node.address}/24 dev eth0",
                f"neigh add {router} lladdr {macs[node.access]} dev eth0 nud permanent",
                f"route add default via {router}",
            )))
            self._offloads(bridge, port)
            self._offloads(node.namespace, "eth0")
            self._limit_lan(node, bridge, port)

    def _quiet(self, namespace):
        """No IPv6 chatter on counted links, and TCP as the package sets it up."""
        host.set_kernel(namespace, {
            "net/ipv6/conf/all/disable_ipv6": "1",
            "net/ipv6/conf/default/disable_ipv6": "1",
            **packaged_settings(),
        })

    def _offloads(self, namespace, device):
        """With loss, each lost packet must be one of the wire's, not one that offloads have merged."""
        if not self._merge:
            run("ip", "netns", "exec", namespace, "ethtool", "-K", device, *OFFLOADS)

    def _limit_lan(self, node, bridge, port):
        rate = self.scenario.lan_bits(node.name)
        if not rate:
            return
        burst = max(rate // 8 // 250, 64 << 10)
        for namespace, device in ((bridge, port), (node.namespace, "eth0")):
            run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}bit",
                "burst", str(burst), "latency", "200ms")

    def host(self, name):
        for candidate in self.hosts:
            if candidate.name == name:
                return candidate
        raise LabError(f"no node {name}; there are {', '.join(h.name for h in self.hosts)}")

    def traffic(self):
        """{region: (up, down)} since the start."""
        readings = self.router.traffic(len(self.scenario.regions))
        return {region.name: reading for region, reading in zip(self.scenario.regions, readings)}

    def cut(self, region):
        self._change(region, 100)

    def heal(self, region):
        self._change(region, None)

    def _change(self, name, loss):
        for index, region in enumerate(self.scenario.regions):
            if region.name == name:
                self.router.change(index, region.access, loss)
                return
        raise LabError(f"no region {name}")

    def start(self, node, command, **options):
        """A process inside this machine. It dies with the lab."""
        return subprocess.Popen(
            ["ip", "netns", "exec", node.namespace, *command],
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent, start_new_session=True, **options,
        )

    def output_of(self, node, command):
        return run("ip", "netns", "exec", node.namespace, *command)

    def retransmitted_segments(self):
        """Over all machines since the start; LAN included, where there are next to none."""
        total = 0
        for node in self.hosts:
            text = self.output_of(node, ["cat", "/proc/net/snmp"])
            names, values = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
            total += int(values[names.index("RetransSegs")])
        return total

    def congestion_of_bulk(self):
        """The congestion control of the connections between regions that carried most, read while they are open."""
        carried = {}
        for node in self.hosts:
            local = node.address.rsplit(".", 1)[0] + "."
            lines = self.output_of(node, ["ss", "-tinOH"]).splitlines()
            for line in lines:
                words = line.split()
                if len(words) < 6 or words[4].startswith(local):
                    continue
                sent = next((int(w.split(":")[1]) for w in words if w.startswith("bytes_sent:")), 0)
                name = next((w for w in words[5:] if w in CONGESTION_CONTROLS), "")
                carried[name] = carried.get(name, 0) + sent
        carried.pop("", None)
        return max(carried, key=carried.get) if carried else ""

    def close(self):
        if self.router:
            self.router.close()


def json_of(text):
    try:
        return json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise LabError(f"not JSON: {text[:200]!r}") from error
