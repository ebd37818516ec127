"""The tc commands that shape one access, the same in a user-mode-linux router and in a namespace of this kernel.

`device` leads to the region. Towards the region netem sits on it; from the region everything that comes in is handed
to an ifb, which has a netem of its own. Counters of both count every header, Ethernet's 14 bytes included.
"""

import json
from dataclasses import dataclass

from .host import LabError

# Packets. netem's own 1000 would drop at these rates and delays.
QUEUE_LIMIT = 20000
# Ethernet, IPv4, TCP with time stamps: what each data packet and each acknowledgement carries.
HEADER_BYTES = 66
FULL_PACKET = 1514
FULL_PAYLOAD = FULL_PACKET - HEADER_BYTES


@dataclass(frozen=True)
class Traffic:
    """What crossed one direction of an access."""

    bytes: int = 0
    packets: int = 0
    drops: int = 0

    def __sub__(self, other):
        return Traffic(self.bytes - other.bytes, self.packets - other.packets, self.drops - other.drops)

    def payload(self):
        """TCP payload, whatever the sizes of the packets: all that is not header."""
        return max(0, self.bytes - HEADER_BYTES * self.packets)


def ifb_of(device):
    return f"ifb{device}"


def shape(access, direction, loss=None):
    """netem's own arguments; direction is 'down' (towards the region) or 'up'."""
    rate = access.down_bits if direction == "down" else access.up_bits
    arguments = ["netem", "limit", str(QUEUE_LIMIT), "delay", f"{access.delay_us}us"]
    lost = access.loss_percent if loss is None else loss
    if lost:
        arguments += ["loss", f"{lost:g}%"]
    if rate:
        arguments += ["rate", f"{rate}bit"]
    return arguments


def build(access, device):
    ifb = ifb_of(device)
    return [
        ["ip", "link", "add", ifb, "type", "ifb"],
        ["ip", "link", "set", ifb, "txqueuelen", str(QUEUE_LIMIT), "up"],
        ["tc", "qdisc", "add", "dev", device, "root", *shape(access, "down")],
        ["tc", "qdisc", "add", "dev", ifb, "root", *shape(access, "up")],
        ["tc", "qdisc", "add", "dev", device, "ingress"],
        ["tc", "filter", "add", "dev", device, "parent", "ffff:", "protocol", "all", "u32", "match", "u32", "0", "0",
         "action", "mirred", "egress", "redirect", "dev", ifb],
    ]


def change(access, device, loss=None):
    """With loss=100 the access is cut, with None it is as the scenario says."""
    return [
        ["tc", "qdisc", "change", "dev", device, "root", *shape(access, "down", loss)],
        ["tc", "qdisc", "change", "dev", ifb_of(device), "root", *shape(access, "up", loss)],
    ]


def read_traffic(output):
    """Of `tc -s -j qdisc show dev DEVICE root`."""
    for qdisc in json.loads(output):
        if qdisc.get("kind") == "netem":
            return Traffic(qdisc["bytes"], qdisc["packets"], qdisc["drops"])
    raise LabError(f"tc shows no netem: {output.strip()[:200]}")
