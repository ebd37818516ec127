"""The Python client and its examples against real daemons.

python_client_test.py --build BUILD; Python standard library only.
"""

import os
import subprocess
import sys
import threading
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "cli", "python")]
sys.dont_write_bytecode = True
import p2pw  # noqa: E402
from build_folder import take_build_folder  # noqa: E402
from small_fleet import SmallFleet  # noqa: E402

BUILD = take_build_folder()


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = SmallFleet(BUILD, nodes=1)
        cls.client = p2pw.Client(config=cls.fleet.trainer.config, program=cls.fleet.p2pw)
        cls.node = p2pw.Client(config=cls.fleet.nodes[0].config, program=cls.fleet.p2pw)
        cls.steps = cls.fleet.checkpoints(3)

    @classmethod
    def tearDownClass(cls):
        cls.fleet.close()

    def example(self, name, *words):
        done = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "cli/python/examples", name), "--config",
                               self.fleet.trainer.config, "--program", self.fleet.p2pw, "--channel", "policy", *words],
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.fleet.trainer.last_words())
        return done.stdout

    def test_1_seed_wait_status_events_timeline(self):
        heard, ready = [], threading.Event()

        def listen():
            for event in self.client.events(channel="policy"):
                heard.append(event)
                if event["event"] == "active" and event["version"] >= 2:
                    return ready.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        first = self.client.seed(self.steps[0], channel="policy", step=1)
        self.assertEqual((first["version"], first["kind"]), (1, "anchor"))
        second = self.client.seed_in_background(self.steps[1], channel="policy", step=2).result(100)
        self.assertEqual((second["version"], second["kind"]), (2, "delta"))
        waited = self.client.wait(channel="policy", version=2, active="100%", timeout=60)
        self.assertEqual((waited["active"], waited["total"]), (2, 2))
        self.assertTrue(all(node["version_active"] == 2 for node in self.client.status()["nodes"]))
        self.assertEqual(self.client.newest("policy")["step"], 2)
        self.assertTrue(os.path.isdir(self.node.current("policy")))
        self.assertTrue(ready.wait(60))
        ids = [event["id"] for event in heard]
        self.assertEqual(ids, sorted(ids))

        def stages():
            timeline = self.client.timeline("policy", 2)
            return {n["name"]: {s["stage"] for s in n["stages"]} for n in timeline["nodes"]}, timeline

        # Times travel with the states, a few seconds later at most.
        wanted = {"first_byte", "last_byte", "staged", "active"}
        self.fleet.wait_for(lambda: wanted <= stages()[0].get("node-1", set()), 30)
        by_node, timeline = stages()
        self.assertTrue({"requested", "opened", "first_bundle", "sealed"} <= by_node["trainer"])
        self.assertEqual(sum(step["longest"] for step in timeline["path"]), 1)
        self.assertLess(timeline["seconds"], 600)

    def test_2_errors_have_codes(self):
        with self.assertRaises(p2pw.Error) as caught:
            self.client.wait(channel="policy", version=99, active="100%", timeout=0)
        self.assertEqual((caught.exception.exit_code, caught.exception.answer["active"]), (6, 0))
        with self.assertRaises(p2pw.Error) as caught:
            self.client.seed("/no/such/folder", channel="policy")
        self.assertNotEqual(caught.exception.exit_code, 0)
        with self.assertRaises(p2pw.Error) as caught:
            self.client.timeline("policy", 12345)
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaises(p2pw.Error) as caught:
            p2pw.Client(state="/no/such/state").status()
        self.assertEqual((caught.exception.code, caught.exception.exit_code), ("unreachable", 3))

    def test_3_examples(self):
        out = os.path.join(self.fleet.folder, "loop")
        said = self.example("train_loop.py", "--steps", "2", "--out", out)
        self.assertIn("served by 2 of 2 nodes", said)
        self.assertIn("go on after step 2", self.example("resume.py"))

    def test_4_a_restart_is_a_gap(self):
        last = list(self.node.events(follow=False))[-1]
        self.fleet.nodes[0].stop()
        self.fleet.nodes[0].start()
        self.fleet.wait_for(lambda: self.fleet.nodes[0].p2pw("status"))
        first = next(iter(self.node.events(after=last["id"], run=last["run"], follow=False)))
        self.assertIsInstance(first, p2pw.Gap)
        self.assertTrue(first["restarted"])

    def test_5_watch_publishes_what_is_finished(self):
        folder = os.path.join(self.fleet.folder, "watched")
        os.mkdir(folder)
        watch = subprocess.Popen([self.fleet.p2pw, "seed", "--watch", folder, "--channel", "policy", "--settle", "0.2", "--json",
                                  "--config", self.fleet.trainer.config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            import json
            import shutil
            # Only once the watch has looked: what is there at its first look is left alone.
            self.fleet.wait_for(lambda: os.path.exists(f"/proc/{watch.pid}/exe"))
            threading.Event().wait(1)
            shutil.copytree(self.steps[3], os.path.join(folder, "tmp-checkpoint-42"))
            os.rename(os.path.join(folder, "tmp-checkpoint-42"), os.path.join(folder, "checkpoint-42"))
            answer = json.loads(watch.stdout.readline())
            self.assertEqual(answer["step"], 42)
            watch.send_signal(2)
            self.assertEqual(watch.wait(30), 130)
        finally:
            watch.kill()
            watch.wait()
            watch.stdout.close()


if __name__ == "__main__":
    unittest.main()
