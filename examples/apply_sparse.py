#!/usr/bin/env python3
"""Applies a sparse hand-over (p2pw export --sparse) to a checkpoint, and checks every changed tensor.

    p2pw export --sparse OLD DELTA -o F.safetensors
    examples/apply_sparse.py OLD F.safetensors NEW

Shows what an engine plug-in does: for each tensor T with changes, values[i] goes to place indices[i] of the flattened
tensor. Needs nothing but Python, and shares no code with p2pw. Files beside the safetensors ones are copied as they are:
a hand-over holds tensors only.
"""

import hashlib
import json
import os
import shutil
import struct
import sys

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
        "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64, "F4": 4}


class Safetensors:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = bytearray(file.read())
        (length,) = struct.unpack_from("<Q", self.bytes)
        header = json.loads(self.bytes[8 : 8 + length])
        self.start = 8 + length
        self.metadata = header.pop("__metadata__", {})
        self.tensors = header

    def view(self, name):
        begin, end = self.tensors[name]["data_offsets"]
        return memoryview(self.bytes)[self.start + begin : self.start + end]


def scatter(target, bits, indices, values):
    places = struct.unpack(f"<{len(indices) // 8}q", indices)
    if bits == 4:  # two elements to a byte; both are listed
        for k in range(0, len(places), 2):
            target[places[k] // 2] = values[k // 2]
        return
    width = bits // 8
    for k, place in enumerate(places):
        target[place * width : (place + 1) * width] = values[k * width : (k + 1) * width]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def apply(old, patch, new):
    """Returns how many tensors and elements changed."""
    if patch.metadata.get("format") != "p2pw-sparse-1":
        raise SystemExit("not a sparse hand-over of this format")
    before, after = json.loads(patch.metadata["sha256_before"]), json.loads(patch.metadata["sha256"])
    open_tensors, elements = dict(after), 0
    shutil.copytree(old, new)
    for name in sorted(os.listdir(new)):
        if not name.endswith(".safetensors"):
            continue
        path = os.path.join(new, name)
        shard = Safetensors(path)
        touched = [t for t in shard.tensors if t in open_tensors]
        for tensor in touched:
            data = shard.view(tensor)
            if digest(data) != before[tensor]:
                raise SystemExit(f"{tensor} is not the tensor that the hand-over starts from: nothing to apply it to")
            indices = patch.view(tensor + ".indices")
            scatter(data, BITS[shard.tensors[tensor]["dtype"]], indices, patch.view(tensor + ".values"))
            if digest(data) != open_tensors.pop(tensor):
                raise SystemExit(f"{tensor} did not become what the hand-over says")
            elements += len(indices) // 8
        if touched:
            with open(path + ".new", "wb") as file:
                file.write(shard.bytes)
            os.replace(path + ".new", path)
    if open_tensors:
        raise SystemExit(f"not found in {old}: {', '.join(sorted(open_tensors))}")
    return len(after), elements


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    old, patch, new = sys.argv[1:]
    try:
        tensors, elements = apply(old, Safetensors(patch), new)
    except SystemExit:
        shutil.rmtree(new, ignore_errors=True)
        raise
    print(f"{elements} elements of {tensors} tensors")


if __name__ == "__main__":
    main()
