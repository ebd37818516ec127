"""The dashboard in headless Chromium, served by a real daemon: it asks nobody else, draws what there is, tells no lies when
the token is missing.

dashboard_test.py --build BUILD [--screenshot FILE]; ends with 77 without Chromium. Talks to the browser by its
remote-debugging pipe. Python standard library only.
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from small_fleet import SmallFleet  # noqa: E402

OPTIONS = None


class Browser:
    """Chromium with --remote-debugging-pipe: NUL-terminated JSON on descriptors 3 and 4."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="p2pw-chromium-")
        to_it, self.write_end = os.pipe()
        self.read_end, from_it = os.pipe()

        def hand_over():
            a, b = os.dup(to_it), os.dup(from_it)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", "--window-size=1400,1300", "about:blank"],
            close_fds=False, preexec_fn=hand_over, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it)
        os.close(from_it)
        self.next, self.buffer, self.session, self.requests, self.complaints = 0, b"", None, [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise AssertionError("Chromium has ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.next += 1
        wanted = self.next
        question = {"id": wanted, "method": method, "params": parameters}
        if self.session:
            question["sessionId"] = self.session
        os.write(self.write_end, json.dumps(question).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == wanted:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            if answer.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(answer["params"]["exceptionDetails"])
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["source"] == "security":
                self.complaints.append(answer["params"]["entry"])

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.value(expression):
                return
            time.sleep(0.1)
        raise AssertionError(f"never true: {expression}\n{self.value('document.body.innerText')}")

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.profile, ignore_errors=True)


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = SmallFleet(OPTIONS.build, nodes=4, dashboard=True)
        for number, step in enumerate(cls.fleet.checkpoints(5)):
            cls.fleet.trainer.p2pw("seed", step, "--step", str(100 * number), "--wait", "--wait-active", "100%")
        time.sleep(6)  # the last times travel with the next reports, every five seconds
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.fleet.close()

    def test_it_shows_the_fleet_and_asks_nobody_else(self):
        b, origin = self.browser, f"http://127.0.0.1:{self.fleet.http}/"
        b.call("Page.navigate", url=origin)
        b.wait("document.getElementById('ask') && !document.getElementById('ask').hidden")
        self.assertTrue(b.value("document.getElementById('main').hidden"), "nothing is shown without the token")
        url = self.fleet.trainer.p2pw("dashboard")["url"]
        self.assertTrue(url.startswith(origin + "#token="))
        b.call("Page.navigate", url="about:blank")
        b.call("Page.navigate", url=url)
        b.wait("!document.getElementById('main').hidden && Number(document.body.dataset.turns) >= 3")
        self.assertNotIn("token", b.value("location.href"), "the token leaves the address bar")
        text = b.value("document.body.innerText")
        for word in ("5 / 5", "node-1", "asia", "eu", "version, step 500", "1.000", "receiving"):
            self.assertIn(word, text)
        self.assertEqual(b.value("document.querySelectorAll('#versions tr').length"), 7)
        self.assertEqual(b.value("document.querySelectorAll('#chart rect').length"), 6)
        self.assertGreaterEqual(b.value("document.querySelectorAll('#timeline rect').length"), 8)
        self.assertEqual(b.value("document.querySelectorAll('#nodes tr').length"), 6)
        b.value("document.getElementById('version').value = '1'; document.getElementById('version').onchange()")
        b.wait("document.querySelectorAll('#timeline rect').length >= 8")
        self.assertEqual(b.complaints, [])
        outside = [r for r in b.requests if not r.startswith((origin, "data:", "about:"))]
        self.assertEqual(outside, [])
        if OPTIONS.screenshot:
            b.value("document.getElementById('version').value = '6'; document.getElementById('version').onchange()")
            time.sleep(1)
            b.screenshot(OPTIONS.screenshot)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--screenshot")
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.build = os.path.abspath(OPTIONS.build)
    if not shutil.which("chromium"):
        print("skipped: chromium is not installed", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
