"""Metrics, their table, the dashboard and the alert rules say the same; the troubleshooting page quotes real messages.

Python standard library only; `python3 tests/docs/monitoring_test.py`.
"""

import json
import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NAME = re.compile(r"\bp2pw_[a-z_]+\b")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def served():
    return set(re.findall(r'"(p2pw_[a-z_]+)"', read("daemon/core/metrics.cpp")))


def documented():
    return set(re.findall(r"^\| `(p2pw_[a-z_]+)` \|", read("daemon/monitoring/README.md"), re.M))


class Monitoring(unittest.TestCase):
    def test_every_metric_is_documented_and_every_documented_one_is_served(self):
        self.assertGreater(len(served()), 20)
        self.assertEqual(served() - documented(), set(), "add them to daemon/monitoring/README.md")
        self.assertEqual(documented() - served(), set(), "the table names metrics that no daemon serves")

    def test_rules_and_panels_use_what_there_is(self):
        for path in ("daemon/monitoring/alerts.yml", "daemon/monitoring/grafana-dashboard.json"):
            used = set(NAME.findall(read(path)))
            self.assertGreater(len(used), 5, path)
            self.assertEqual(used - served(), set(), path)

    def test_the_dashboard_has_queries_and_places_for_all_panels(self):
        board = json.loads(read("daemon/monitoring/grafana-dashboard.json"))
        taken = set()
        for panel in board["panels"]:
            self.assertTrue(panel["targets"], panel["title"])
            place = panel["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, panel["title"])
                    taken.add((x, y))

    def test_every_alert_says_what_to_do(self):
        rules = read("daemon/monitoring/alerts.yml").split("- alert:")[1:]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            for key in ("expr:", "summary:", "do:", "severity:"):
                self.assertIn(key, rule)


class Troubleshooting(unittest.TestCase):
    def test_its_texts_are_messages_of_the_programs(self):
        source = []
        for top in ("protocol", "chunker", "daemon", "cli"):
            for folder, _, names in os.walk(os.path.join(ROOT, top)):
                source += [read(os.path.join(folder, name)) for name in names if name.endswith((".cpp", ".h"))]
        # Literals that stand beside each other are one message.
        words = re.sub(r'"\s*\n?\s*"', "", "\n".join(source)) + "\n".join(os.strerror(n) for n in range(1, 134))
        rows = re.findall(r"^\| (`.*?) \|", read("daemon/docs/TROUBLESHOOTING.md"), re.M)
        self.assertGreater(len(rows), 15)
        short = read("README.md").split("## What goes wrong")[1].split("\n## ")[0]
        first = re.findall(r"^\| (`.*?) \|", short, re.M)
        self.assertGreater(len(first), 4)
        missing = []
        for row in rows + first:
            for quoted in re.findall(r"`([^`]+)`", row):
                if not quoted.startswith("p2pw "):  # a command, not a message
                    missing += [text for text in filter(None, map(str.strip, quoted.split("..."))) if text not in words]
        self.assertEqual(missing, [], "no program says this (any more)")


if __name__ == "__main__":
    unittest.main()
