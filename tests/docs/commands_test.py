"""Executes every command that README.md and the docs show in ```sh blocks, and checks the others.

docs/commands_test.py --build BUILD

How a block is run stands in an HTML comment right before it:

    <!-- run: trainer -->    on a trainer with a fleet of two; <!-- run: node --> on its node
    <!-- run: here -->       in an empty folder with two checkpoints, without any daemon
    <!-- elsewhere: WHY -->  executed by another test, which WHY names, or not to be executed at all

The trainer and node are real daemons on loopback addresses; `apt`, `systemctl`, `install`, `sysctl` and `ssh` are stand-ins that do
what they do for p2pw (tests/packaging/two_hosts does the real thing). Every mention of `p2pw VERB --option` in running text must name
a verb and options that exist. Python standard library only.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from build_folder import take_build_folder  # noqa: E402
from small_fleet import Machine, SmallFleet  # noqa: E402

PAGES = ["README.md", "CONTRIBUTING.md", "daemon/docs/QUICKSTART.md", "daemon/docs/OPERATING.md", "daemon/docs/NETWORK.md",
         "daemon/docs/TROUBLESHOOTING.md", "daemon/docs/ARCHITECTURE.md", "daemon/monitoring/README.md", "simulations/README.md",
         "daemon/HOTLOAD.md", "SECURITY.md", "protocol/SPEC.md", "chunker/CODEC.md"]
BLOCK = re.compile(r"^ *(?:<!-- (run|elsewhere): (.*?) -->\n *)?```sh\n(.*?)^ *```", re.M | re.S)
BUILD = take_build_folder()


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blocks():
    for page in PAGES:
        for match in BLOCK.finditer(read(page)):
            yield page, match.group(1), match.group(2), textwrap.dedent(match.group(3))


SHIM = """#!/bin/bash
# Stands in front of the real p2pw: this machine's configuration, and addresses of the loopback network. --start and --restart
# are only for the configuration's usual place, so this starts the daemon itself.
real={p2pw}
export P2PW_CONFIG={config}
case $1 in
  init|join)
    words=() start=true
    for word in "$@"; do
      if [[ $word == --start ]]; then start="systemctl enable --now p2pwd"; else words+=("$word"); fi
    done
    "$real" "${{words[@]}}" --address {address} --name {name} --state {state}
    code=$?
    if ((code == 0)); then $start || code=$?; fi
    exit $code ;;
  channel)
    words=() again=true
    for word in "$@"; do
      if [[ $word == --restart ]]; then again="systemctl restart p2pwd now"; else words+=("$word"); fi
    done
    "$real" "${{words[@]}}" && $again
    exit $? ;;
esac
exec "$real" "$@"
"""
SYSTEMCTL = """#!/bin/bash
case "$*" in
  "restart p2pwd now") kill "$(cat {pid})"; while kill -0 "$(cat {pid})" 2>/dev/null; do sleep 0.05; done ;;&
  "enable --now p2pwd"|"restart p2pwd now")
    {p2pwd} --config {config} >>{log} 2>&1 </dev/null & echo $! > {pid}
    for i in $(seq 300); do {p2pw} status --quiet --config {config} >/dev/null 2>&1 && exit 0; sleep 0.1; done
    echo "p2pwd did not start"; tail {log}; exit 1 ;;
  *) exit 0 ;;
esac
"""


class Place(Machine):
    """A machine that a reader has in front of him."""

    def __init__(self, fleet, name, region, address):
        super().__init__(fleet, name, region, address)
        self.bin = os.path.join(self.folder, "bin")
        self.home = os.path.join(self.folder, "home")
        self.pid = os.path.join(self.folder, "pid")
        os.makedirs(self.bin)
        os.makedirs(self.home)
        known = dict(p2pw=fleet.p2pw, p2pwd=fleet.p2pwd, config=self.config, address=address, name=name, state=self.state,
                     log=self.log, pid=self.pid)
        self.program("p2pw", SHIM.format(**known))
        self.program("p2pwd", f"#!/bin/bash\nexec {fleet.p2pwd} --config {self.config}\n")
        self.program("systemctl", SYSTEMCTL.format(**known))
        for name in ("apt", "sysctl", "install", "ssh", "adduser", "sudo"):
            self.program(name, "#!/bin/bash\nexit 0\n")

    def program(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run(self, script):
        script = script.replace("/var/lib/p2pw", self.state).replace("/etc/p2pw/p2pw.toml", self.config)
        script = script.replace("/usr/share/doc/p2pw/examples/python", os.path.join(ROOT, "cli/python/examples"))
        environment = {"PATH": self.bin + ":/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home, "LC_ALL": "C.UTF-8",
                       "P2PW_CONFIG": self.config, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.home, env=environment, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=240)

    def stop(self):
        if os.path.exists(self.pid):
            with open(self.pid, encoding="utf-8") as file:
                pid = int(file.read())
            try:
                os.kill(pid, 15)
            except ProcessLookupError:
                pass
            os.remove(self.pid)


class World:
    """Machines that come into being as the pages are read from top to bottom."""

    def __init__(self):
        self.fleet = SmallFleet.__new__(SmallFleet)
        SmallFleet.prepare(self.fleet, BUILD)
        self.trainer = Place(self.fleet, "trainer", "us-east", self.fleet.net + ".1")
        self.node = Place(self.fleet, "node", "eu-west", self.fleet.net + ".2")
        self.here = Place(self.fleet, "here", "none", self.fleet.net + ".3")
        self.fleet.trainer, self.fleet.nodes = self.trainer, [self.node, self.here]
        steps = self.fleet.checkpoints(2, "1MiB")
        for place in (self.trainer, self.here):
            folder = os.path.join(place.home, "checkpoints")
            os.makedirs(folder)
            for number, step in ((99, 0), (100, 1), (101, 2)):
                shutil.copytree(steps[step], os.path.join(folder, f"step_{number:04d}"))
        self.token = None

    def run(self, where, script):
        place = getattr(self, where)
        if where == "node" and self.token:
            script = re.sub(r"\bTOKEN\b", self.token, script)
        done = place.run(script)
        tokens = re.findall(r"\bp2pw1\S+", done.stdout)
        if tokens:
            self.token = tokens[-1]
        return done

    def set_up(self):
        """For pages that begin with a fleet that stands."""
        dashboard = f"sed -i 's/:4712/:{self.fleet.free_port()}/' /etc/p2pw/p2pw.toml"
        for where, script in (("trainer", f"p2pw init --channel policy --region us-east --dashboard\n{dashboard}\n"
                                          "systemctl enable --now p2pwd"),
                              ("node", "p2pw join TOKEN --region eu-west\nsystemctl enable --now p2pwd")):
            done = self.run(where, script)
            if done.returncode != 0:
                raise AssertionError(done.stdout + done.stderr)

    def close(self):
        self.fleet.close()


class Commands(unittest.TestCase):
    def test_every_block_says_where_it_is_executed(self):
        count = 0
        for page, kind, _, script in blocks():
            self.assertIsNotNone(kind, f"{page}: say `<!-- run: ... -->` before this block:\n{script}")
            count += kind == "run"
        self.assertGreater(count, 8)

    def test_every_block_runs(self):
        pages = {}
        for page, kind, where, script in blocks():
            if kind == "run":
                pages.setdefault(page, []).append((where, script))
        for page, scripts in pages.items():
            world = World()
            try:
                if "p2pw init" not in "".join(script for _, script in scripts):
                    world.set_up()
                    done = world.run("trainer", "p2pw seed checkpoints/step_0099 --channel policy --wait-active 100%")
                    self.assertEqual(done.returncode, 0, done.stderr)
                for where, script in scripts:
                    with self.subTest(page=page, script=script):
                        done = world.run(where, script)
                        self.assertEqual(done.returncode, 0, f"{page}:\n{script}\n{done.stdout}{done.stderr}{world.trainer.last_words()}")
            finally:
                world.close()

    def test_verbs_and_options_in_running_text_exist(self):
        p2pw = os.path.join(BUILD, "bin", "p2pw")

        def text_of(*words):
            return subprocess.run([p2pw, *words], capture_output=True, text=True, check=True).stdout

        verbs = {line.split()[0] for line in text_of("--help").splitlines() if re.match(r"^  [a-z]+ ", line)}
        helps = {verb: text_of(verb, "--help") for verb in verbs}
        for page in PAGES:
            for span in re.findall(r"`(p2pw [^`]+)`", read(page)):
                words = span.split()
                if not words[1].isalpha() or not words[1].islower():
                    continue
                self.assertIn(words[1], verbs, f"{page}: `{span}`")
                for option in re.findall(r"(?<!\S)(--[a-z-]+)", span):
                    self.assertIn(option, helps[words[1]], f"{page}: `{span}`")


if __name__ == "__main__":
    unittest.main()
