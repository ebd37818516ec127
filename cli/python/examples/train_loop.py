"""A training loop that publishes each step in the background and never waits for the network, save to stay in bounds.

    python3 train_loop.py --steps 5 --out /tmp/policy --channel policy

The "model" here is a few tensors in a safetensors file, so that the example runs anywhere; with transformers the marked
line is model.save_pretrained(folder).
"""

import argparse
import json
import os
import random
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import p2pw


def save_pretrained(weights, folder):
    os.makedirs(folder)
    data = struct.pack(f"<{len(weights)}H", *weights)
    header = json.dumps({"weight": {"dtype": "BF16", "shape": [len(weights)], "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "example"}, file)


def train_one_step(weights, step):
    draw = random.Random(step)
    for _ in range(len(weights) // 50):  # an optimizer step changes some 2 % of bf16 weights
        weights[draw.randrange(len(weights))] ^= 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", required=True)
    parser.add_argument("--channel")
    parser.add_argument("--config")
    parser.add_argument("--program", default="p2pw")
    options = parser.parse_args()

    fleet = p2pw.Client(config=options.config, program=options.program)
    weights = [0x3C00 + i % 512 for i in range(20000)]
    publishing, kept = None, None
    for step in range(1, options.steps + 1):
        train_one_step(weights, step)
        folder = os.path.join(options.out, f"step_{step:06d}")
        save_pretrained(weights, folder)  # model.save_pretrained(folder)
        if publishing is not None:
            # The step before is on its way while this one was computed. Its folder is no longer needed once it is out.
            print(f"step {step - 1}: version {publishing.result()['version']}", flush=True)
            shutil.rmtree(kept)
        publishing, kept = fleet.seed_in_background(folder, channel=options.channel, step=step), folder
    last = publishing.result()
    print(f"step {options.steps}: version {last['version']}", flush=True)
    done = fleet.wait(channel=options.channel, version=last["version"], active="95%", timeout=600)
    print(f"served by {done['active']} of {done['total']} nodes")


main()
