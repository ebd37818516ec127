"""examples/apply_sparse.py, which shares no code with p2pw, makes the next checkpoint out of a sparse hand-over, bit for bit.

    sparse_apply.py [--build DIR] [CHECKPOINT CHECKPOINT...]

Over a series of checkpoints (generated ones, when none are named): each step, and all steps folded into one.
"""

import argparse
import filecmp
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "U8": 1}


def run(*command, fails=False):
    done = subprocess.run(command, capture_output=True, text=True)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def write(folder, tensors):
    os.makedirs(folder)
    for shard in (0, 1):
        header, data = {}, b""
        for number, (name, dtype, values) in enumerate(tensors):
            if number % 2 != shard:
                continue
            header[name] = {"dtype": dtype, "shape": [len(values) // WIDTHS[dtype]], "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, f"model-{shard}.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)


def generate(folder, seed):
    draw = random.Random(seed)
    tensors = [(f"t{i}.{dtype}", dtype, bytearray(draw.randbytes(WIDTHS[dtype] * draw.randrange(1, 30_000))))
               for i, dtype in enumerate(list(WIDTHS) * 2)]
    series = []
    for step in range(4):
        for _, _, values in tensors[1:] if step else []:
            for _ in range(len(values) // 60 + 1):
                values[draw.randrange(len(values))] ^= 1 << draw.randrange(8)
        series.append(os.path.join(folder, f"step_{step:04}"))
        write(series[-1], tensors)
    return series


def same_tensors(a, b):
    names = sorted(n for n in os.listdir(a) if n.endswith(".safetensors"))
    if names != sorted(n for n in os.listdir(b) if n.endswith(".safetensors")):
        return False
    return all(filecmp.cmp(os.path.join(a, n), os.path.join(b, n), shallow=False) for n in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("series", nargs="*", metavar="CHECKPOINT")
    options = parser.parse_args()
    p2pw = os.path.join(options.build, "bin", "p2pw")
    script = os.path.join(ROOT, "examples", "apply_sparse.py")
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="p2pw-sparse-") as folder:
        series = options.series or generate(os.path.join(folder, "series"), options.seed)
        deltas = []
        for i, (old, new) in enumerate(zip(series, series[1:])):
            deltas.append(os.path.join(folder, f"{i}.delta"))
            run(p2pw, "diff", old, new, "-o", deltas[-1])
        jobs = [(i, i + 1) for i in range(len(deltas))] + ([(0, len(deltas))] if len(deltas) > 1 else [])
        for first, last in jobs:
            patch, made = os.path.join(folder, "patch.safetensors"), os.path.join(folder, f"made-{first}-{last}")
            run(p2pw, "export", "--sparse", series[first], *deltas[first:last], "-o", patch)
            said = run(sys.executable, "-B", script, series[first], patch, made).strip()
            if not same_tensors(made, series[last]):
                raise SystemExit(f"{series[first]} -> {series[last]}: not the same")
            print(f"{os.path.basename(series[first])} -> {os.path.basename(series[last])}: bit for bit, {said}, "
                  f"{os.path.getsize(patch)} bytes")
        # The wrong base is found out, and leaves nothing behind.
        made = os.path.join(folder, "wrong")
        run(sys.executable, "-B", script, series[-1], patch, made, fails=True)
        if os.path.exists(made):
            raise SystemExit("a hand-over on the wrong base left something behind")


if __name__ == "__main__":
    main()
