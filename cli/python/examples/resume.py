"""Goes on where a training was cut short: asks the fleet which step it serves and loads exactly that checkpoint.

    python3 resume.py --channel policy

Every node, the trainer included, has the newest version as a complete checkpoint; nothing has to be downloaded. With
transformers the last line is AutoModelForCausalLM.from_pretrained(folder).
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import p2pw


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--channel", required=True)
    parser.add_argument("--config")
    parser.add_argument("--program", default="p2pw")
    options = parser.parse_args()

    fleet = p2pw.Client(config=options.config, program=options.program)
    newest = fleet.newest(options.channel)
    if newest is None:
        print("nothing was published yet: start from the base model")
        return
    fleet.wait(channel=options.channel, version=newest["version"], active="1%", timeout=60)
    folder = fleet.current(options.channel)
    print(f"go on after step {newest['step']}: version {newest['version']} in {folder}")
    print(" ".join(sorted(os.listdir(folder))))  # from_pretrained(folder)


main()
