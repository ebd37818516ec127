"""Bare TCP on the emulated network: what the wire gives to a program that does nothing else."""

import subprocess

from .host import LabError
from .netem import FULL_PACKET, FULL_PAYLOAD
from .network import json_of


class Pump:
    """One receiver in each of the given machines."""

    def __init__(self, network, binary, hosts):
        self._network = network
        self._binary = binary
        self._ports = {}
        self._servers = []
        for node in hosts:
            server = network.start(node, [binary, "serve"], stdout=subprocess.PIPE, text=True)
            self._servers.append(server)
            self._ports[node.name] = json_of(server.stdout.readline())["port"]

    def _begin(self, verb, source, sink, *options):
        command = [self._binary, verb, sink.address, str(self._ports[sink.name]), *map(str, options)]
        return self._network.start(source, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _end(self, process):
        output, errors = process.communicate()
        if process.returncode != 0:
            raise LabError(errors.strip() or "tcp_pump failed")
        return json_of(output)

    def ping(self, source, sink, count=20):
        """The shortest round trip in seconds: what the network adds, without what a busy machine adds."""
        return self._end(self._begin("ping", source, sink, "--count", count))["min_ms"] / 1000

    def rates(self, pairs, congestion, warm_seconds=2.0, seconds=3.0, connections=4):
        """Bits per second on the wire, headers included, of every (source, sink) while all are busy at once.

        `congestion`: a name for each pair.
        """
        options = ["--connections", connections, "--warm-ms", int(warm_seconds * 1000), "--for-ms", int(seconds * 1000)]
        running = [self._begin("rate", source, sink, *options, *(["--cc", name] if name else []))
                   for (source, sink), name in zip(pairs, congestion)]
        return [self._end(process)["goodput_bits"] * FULL_PACKET / FULL_PAYLOAD for process in running]

    def burst(self, source, sink, size, congestion, warm_bytes, connections=4):
        """Seconds for `size` bytes over warm connections, first write to last byte read."""
        options = ["--connections", connections, "--warm-bytes", int(warm_bytes), "--bytes", int(size)]
        if congestion:
            options += ["--cc", congestion]
        return self._end(self._begin("burst", source, sink, *options))["seconds"]

    def close(self):
        for server in self._servers:
            server.kill()
            server.wait()
