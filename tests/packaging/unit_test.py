"""The systemd unit, its companions and the example configuration, without installing anything.

unit_test.py --build BUILD; Python standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from build_folder import take_build_folder  # noqa: E402

PACKAGING = os.path.join(ROOT, "daemon", "packaging")
BUILD = take_build_folder()


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Unit(unittest.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_exposure_is_below_two(self):
        done = run("systemd-analyze", "security", "--offline=true", "--no-pager", os.path.join(PACKAGING, "p2pwd.service"))
        level = re.search(r"Overall exposure level for p2pwd.service: ([0-9.]+)", done.stdout)
        self.assertIsNotNone(level, done.stdout + done.stderr)
        self.assertLess(float(level.group(1)), 2.0)

    def test_it_asks_for_what_the_daemon_does(self):
        with open(os.path.join(PACKAGING, "p2pwd.service"), encoding="utf-8") as file:
            unit = file.read()
        for line in ("Type=notify", "WatchdogSec=30", "User=p2pw", "StateDirectory=p2pw", "CapabilityBoundingSet=\n",
                     "ProtectSystem=strict", "LoadCredential=p2pw.node.key"):
            self.assertIn(line, unit)
        allowed = " ".join(re.findall(r"^SystemCallFilter=([^~].*)$", unit, re.M)).split()
        for call in ("seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"):
            self.assertIn(call, allowed)  # else the process that runs the swarm is confined by the unit alone


class Generated(unittest.TestCase):
    def setUp(self):
        self.p2pw, self.p2pwd = (os.path.join(BUILD, "bin", name) for name in ("p2pw", "p2pwd"))
        self.folder = tempfile.mkdtemp(prefix="p2pw-packaging-")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_the_example_configuration_names_every_key(self):
        example = os.path.join(PACKAGING, "p2pw.example.toml")
        done = run(self.p2pw, "config", "--config", example)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(example, encoding="utf-8") as file:
            named = set(re.findall(r"^([a-z_]+) =", file.read(), re.M))
        effective = set(re.findall(r"^#? ?([a-z_]+) =", done.stdout, re.M))
        self.assertEqual(effective - named - {"socket", "publish_socket"}, set(), "missing in p2pw.example.toml")

    def test_man_pages_are_well_formed(self):
        done = run(sys.executable, "-B", os.path.join(PACKAGING, "make_man.py"), self.p2pw, self.p2pwd, self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, words in (("p2pw.1", ["P2PW SEED", "P2PW DOCTOR"]), ("p2pwd.8", ["--config"])):
            path = os.path.join(self.folder, name)
            with open(path, encoding="utf-8") as file:
                text = file.read().replace("\\-", "-")
            for word in words:
                self.assertIn(word, text)
            if shutil.which("man"):
                shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", path], capture_output=True, text=True,
                                       stdin=subprocess.DEVNULL, env={**os.environ, "MANWIDTH": "120"})
                self.assertEqual(shown.returncode, 0, shown.stderr)
                self.assertEqual(shown.stderr, "")

    def test_completions_are_understood_by_their_shells(self):
        for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
            with self.subTest(shell=shell):
                if not shutil.which(shell):
                    self.skipTest(f"{shell} is not installed")
                script = os.path.join(self.folder, shell)
                with open(script, "w", encoding="utf-8") as file:
                    file.write(run(self.p2pw, "completion", shell).stdout)
                done = run(*check, script)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_bash_completes_verbs_and_options(self):
        script = run(self.p2pw, "completion", "bash").stdout
        for line, wanted in (("p2pw dia", ""), ("p2pw doc", "doctor"), ("p2pw log --time", "--timeline"), ("p2pw seed --wat", "--watch")):
            words = line.split(" ")
            ask = f"""{script}
COMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1}
_p2pw; echo "${{COMPREPLY[*]}}" """
            self.assertEqual(run("bash", "-c", ask).stdout.strip(), wanted, line)


if __name__ == "__main__":
    unittest.main()
