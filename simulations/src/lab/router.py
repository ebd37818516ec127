"""The WAN router: one device per access, netem in both directions.

Two kinds with the same face. HostRouter is a namespace of this kernel. UmlRouter is a user-mode-linux kernel, for
machines whose own kernel has no sch_netem; it runs as one ordinary process, and its devices are TAPs.
"""

import json
import os
import select
import socket
import subprocess
import time

from . import netem
from .host import LabError, UML, require_tun, run, set_kernel
from .private import die_with_parent

WAN = "wan"
NICE = -15


class Router:
    """Commands run inside the router; `device(i)` is its interface for access i, `port(i)` the far end of it."""

    def run(self, commands):
        raise NotImplementedError

    def device(self, index):
        raise NotImplementedError

    def port(self, index):
        """The interface to put on the region's bridge; hands it over into `namespace`."""
        raise NotImplementedError

    def close(self):
        pass

    def configure(self, accesses, addresses, neighbours):
        """Addresses are (ip/prefix) per access, neighbours (ip, mac) lists: nobody has to ask, so no ARP is delayed."""
        commands = []
        for index, access in enumerate(accesses):
            device = self.device(index)
            commands += [
                ["ip", "link", "set", device, "txqueuelen", str(netem.QUEUE_LIMIT), "up"],
                ["ip", "address", "add", addresses[index], "dev", device],
            ]
            commands += [
                ["ip", "neigh", "add", ip, "lladdr", mac, "dev", device, "nud", "permanent"]
                for ip, mac in neighbours[index]
            ]
            commands += netem.build(access, device)
        self.run(commands)

    def traffic(self, count):
        """[(up, down)] of every access."""
        commands = []
        for index in range(count):
            for device in (netem.ifb_of(self.device(index)), self.device(index)):
                commands.append(["tc", "-s", "-j", "qdisc", "show", "dev", device, "root"])
        outputs = [netem.read_traffic(output) for output in self.run(commands)]
        return list(zip(outputs[0::2], outputs[1::2]))

    def change(self, index, access, loss=None):
        self.run(netem.change(access, self.device(index), loss))


class HostRouter(Router):
    def __init__(self, count):
        self._count = count
        for index in range(count):
            run("ip", "-n", WAN, "link", "add", f"wan{index}", "type", "veth", "peer", "name", f"port{index}")
        set_kernel(WAN, {"net/ipv4/ip_forward": "1"})

    def set_mac(self, index, mac):
        run("ip", "-n", WAN, "link", "set", f"wan{index}", "address", mac)

    def run(self, commands):
        return [run("ip", "netns", "exec", WAN, *command) for command in commands]

    def device(self, index):
        return f"wan{index}"

    def port(self, index, namespace):
        name = f"port{index}"
        run("ip", "-n", WAN, "link", "set", name, "netns", namespace)
        return name


class UmlRouter(Router):
    MEMORY = "1G"
    BOOT_SECONDS = 30
    ANSWER_SECONDS = 30
    REQUEST_BYTES = 2000  # its console drops what does not fit into a terminal's buffer of 4 KiB

    def __init__(self, folder, macs, merge):
        """`merge`: let it carry packets of up to 64 KiB that sender and receiver have merged (segmentation offload)."""
        require_tun()
        self._folder = folder
        self._count = len(macs)
        for index in range(self._count):
            run("ip", "-n", WAN, "tuntap", "add", f"port{index}", "mode", "tap")
            run("ip", "-n", WAN, "link", "set", f"port{index}", "txqueuelen", str(netem.QUEUE_LIMIT), "up")
        ours, theirs = socket.socketpair()
        init = os.path.join(os.path.dirname(os.path.abspath(__file__)), "uml_init.py")
        log_read, log_write = os.pipe()
        channel = theirs.fileno()
        command = [
            "ip", "netns", "exec", WAN, UML, f"mem={self.MEMORY}", "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
            f"init={init}", "umid=router", f"uml_dir={folder}", "con=null", "con0=null,fd:1",
            f"con1=fd:{channel},fd:{channel}",
        ]
        command += [
            f"vec{index}:transport=tap,ifname=port{index},depth=256,gro={int(merge)},mac={mac}"
            for index, mac in enumerate(macs)
        ]
        self._process = subprocess.Popen(
            command, pass_fds=[channel], stdin=subprocess.DEVNULL, stdout=log_write, stderr=log_write,
            preexec_fn=_prepare, env={"PATH": os.environ["PATH"], "TMPDIR": "/run"},
        )
        theirs.close()
        os.close(log_write)
        self._log = log_read
        self._channel = ours
        self._pending = b""

    def wait_booted(self):
        if not self._read(self.BOOT_SECONDS).get("ready"):
            raise LabError("the WAN router did not start")

    def run(self, commands):
        outputs = []
        for few in _by_size(commands, self.REQUEST_BYTES):
            self._channel.sendall((json.dumps({"run": few}) + "\n").encode())
            answer = self._read(self.ANSWER_SECONDS)
            if "error" in answer:
                raise LabError(f"WAN router: {answer['error']}")
            outputs += answer["outputs"]
        return outputs

    def _read(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._channel, self._log], [], [], max(0, end - time.monotonic()))
            if self._log in ready and not self._drain_log():
                raise LabError(f"the WAN router ended: {self._last_words()}")
            if self._channel in ready:
                self._pending += self._channel.recv(1 << 16)
            if not ready:
                raise LabError(f"the WAN router does not answer within {seconds} s: {self._last_words()}")
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def _drain_log(self):
        data = os.read(self._log, 1 << 16)
        with open(f"{self._folder}/router.log", "ab") as file:
            file.write(data)
        return bool(data)

    def _last_words(self):
        try:
            with open(f"{self._folder}/router.log", encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except FileNotFoundError:
            lines = []
        return " / ".join(lines[-3:]) or "nothing in its log"

    def device(self, index):
        return f"vec{index}"

    def port(self, index, namespace):
        name = f"port{index}"
        run("ip", "-n", WAN, "link", "set", name, "netns", namespace)
        return name

    def pid(self):
        return self._process.pid

    def close(self):
        self._process.kill()
        self._process.wait()


def _by_size(commands, most):
    """The commands in order, in groups whose text is about `most` bytes at most."""
    group, size = [], 0
    for command in commands:
        length = len(json.dumps(command))
        if group and size + length > most:
            yield group
            group, size = [], 0
        group.append(command)
        size += length
    if group:
        yield group


def _prepare():
    """The router must not wait for the daemons' computations: on a real WAN it is another machine.

    Where the kernel schedules by sessions, a nice value only counts within its session, so the session gets one too.
    """
    die_with_parent()
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write(str(NICE))
    except OSError:
        pass
