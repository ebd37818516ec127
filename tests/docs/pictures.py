"""Makes the pictures of the terminal in the documents: cli/docs/top.svg, `p2pw top` while a version is on its way;
simulations/docs/demo.svg, what simulations/demo prints. The dashboard's is tests/dashboard/dashboard_test.py --screenshot.

docs/pictures.py [--build BUILD] [top] [demo]; standard library only.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from build_folder import take_build_folder  # noqa: E402
from small_fleet import SmallFleet  # noqa: E402
from terminal_picture import picture  # noqa: E402

BUILD = take_build_folder()
COLUMNS, ROWS = 80, 24


def write(path, text):
    os.makedirs(os.path.dirname(os.path.join(ROOT, path)), exist_ok=True)
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write(text)
    print(path)


class Terminal:
    """A program on a terminal of its own; keeps every screen that it drew."""

    def __init__(self, *command):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self.ours, self.text = ours, ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while True:
            try:
                part = os.read(self.ours, 65536)
            except OSError:
                return
            self.text += part.decode(errors="replace")

    def end(self):
        os.write(self.ours, b"q")
        self.process.wait(20)
        self.reader.join(5)
        os.close(self.ours)

    def screens(self):
        for screen in self.text.split("\x1b[H")[1:]:
            plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", screen.split("\x1b[J")[0]).replace("\r", "")
            yield plain.rstrip("\n").split("\n")


def top():
    with SmallFleet(BUILD, nodes=6) as fleet:
        steps = fleet.checkpoints(1, "64MiB")
        # A line of 150 Mbit/s between regions, so that there is something to see.
        fleet.trainer.stop()
        with open(fleet.trainer.config, "a", encoding="utf-8") as file:
            file.write("\n[links]\nwan_rate_limit_mbit = 150\n")
        fleet.trainer.start()
        fleet.wait_for(lambda: len(fleet.trainer.p2pw("status")["nodes"]) == 7)
        terminal = Terminal(fleet.p2pw, "top", "--interval", "0.5", "--config", fleet.trainer.config)
        try:
            fleet.trainer.p2pw("seed", steps[0], "--step", "100", "--wait-active", "100%")
        finally:
            terminal.end()
        busy = max(terminal.screens(), key=lambda lines: sum("fetching" in line or "rebuilding" in line for line in lines))
        assert all(len(line) <= COLUMNS for line in busy) and len(busy) <= ROWS, "top does not fit"
        write("cli/docs/top.svg", picture(busy, "p2pw top", COLUMNS))


def demo():
    done = subprocess.run([os.path.join(ROOT, "simulations", "demo")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=True)
    lines = [line.replace(ROOT + "/", "") for line in done.stdout.rstrip("\n").split("\n")]
    print(done.stdout)
    write("simulations/docs/demo.svg", picture(["$ ./simulations/demo", *lines], "simulations/demo"))


if __name__ == "__main__":
    for name in sys.argv[1:] or ["top", "demo"]:
        {"top": top, "demo": demo}[name]()
