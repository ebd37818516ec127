"""The checkpoints of a run, made by p2pw-series before anything is measured, and the comparison afterwards."""

import os
import stat

from . import host
from .host import LabError

BLOCK = 4 << 20


def steps_of(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if os.path.isdir(os.path.join(folder, name))]


class Series:
    """`warm_up`: published first, unmeasured; `measured`: the versions that count, in order."""

    SMALL = 1 << 20

    def __init__(self, payload, folder, binary, further=0):
        self.warm_up = None
        count = payload.versions + further
        if payload.warm_up == "small":
            self.warm_up = self._make(binary, os.path.join(folder, "small"), self.SMALL, 5.0, 0)[0]
        steps = count if payload.warm_up == "small" else count + 1
        made = self._make(binary, os.path.join(folder, "series"), payload.checkpoint_bytes, payload.changed_percent, steps - 1)
        if len(made) < steps:
            raise LabError(f"p2pw-series made {len(made)} checkpoints, {steps} are needed")
        if payload.warm_up == "full":
            self.warm_up = made.pop(0)
        self.measured = made[:count]

    @staticmethod
    def _make(binary, folder, size, changed, steps):
        host.run(binary, folder, "--bytes", str(size), "--changed", f"{changed:g}", "--steps", str(steps))
        return steps_of(folder)


def files_of(folder):
    found = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.startswith("."):
                continue
            path = os.path.join(base, name)
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise LabError(f"{path} is no file")
            found[os.path.relpath(path, folder)] = path
    return found


def difference(source, copy):
    """What is not the same between two checkpoints, in words; empty when they are bit-identical."""
    if not os.path.isdir(copy):
        return f"{copy} is not there"
    left, right = files_of(source), files_of(copy)
    if left.keys() != right.keys():
        return f"{copy}: other files: {', '.join(sorted(left.keys() ^ right.keys()))}"
    for name, path in left.items():
        with open(path, "rb") as a, open(right[name], "rb") as b:
            at = 0
            while True:
                x, y = a.read(BLOCK), b.read(BLOCK)
                if x != y:
                    return f"{right[name]}: differs from byte {at} on at the earliest"
                if not x:
                    break
                at += len(x)
    return ""


def room_needed(scenario):
    """Bytes on disk or in memory: the series, and two slots and a bundle store for everybody."""
    machines = 1 + sum(region.nodes for region in scenario.regions)
    checkpoints = scenario.payload.versions + 2
    return scenario.payload.checkpoint_bytes * (checkpoints + machines * 3)
