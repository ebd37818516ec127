"""--build BUILD of a Python test; what else stands on its command line is unittest's."""

import argparse
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def take_build_folder():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    known, sys.argv[1:] = parser.parse_known_args()
    return os.path.abspath(known.build)
