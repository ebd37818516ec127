#!/usr/bin/python3
"""What of the lab decides and calculates, tested without a network: python3 simulations/src/lab_test.py"""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lab import bare, faults, netem, payload, report, router, scenario, tree  # noqa: E402
from lab.host import LabError  # noqa: E402
from lab.ledger import Ledger  # noqa: E402

REGIONS = """
[[region]]
name = "home"
up_mbit = 200
[[region]]
name = "r1"
nodes = 3
up_mbit = 100
delay_ms = 43
[[region]]
name = "r2"
nodes = 3
delay_ms = 72
"""


def parsed(text):
    return scenario.parse(text, "test")


class Scenarios(unittest.TestCase):
    def test_all_files_are_right(self):
        names = [entry[:-5] for entry in os.listdir(scenario.folder()) if entry.endswith(".toml")]
        self.assertIn("wan-2x3", names)
        for name in names:
            with self.subTest(name):
                read = scenario.load(name)
                self.assertTrue(read.about)
                self.assertGreater(payload.room_needed(read), 0)
                for fault in read.faults:
                    self.assertTrue(fault.target)

    def test_like_takes_what_is_not_said(self):
        read = scenario.load("region-cut")
        self.assertEqual(read.regions, scenario.load("wan-2x3").regions)
        self.assertEqual([fault.do for fault in read.faults], ["cut"])

    def test_typing_errors_are_found(self):
        for wrong in ('nodse = 3', '[payload]\nkind = "anchr"', '[payload]\nkind = "delta"', '[[fault]]\ndo = "burn"\nat_s = 1',
                      '[[fault]]\ndo = "kill"', '[[fault]]\ndo = "kill"\nat_s = 1\nat_share = 0.5', 'timeout_s = "long"'):
            with self.subTest(wrong), self.assertRaises(LabError):
                parsed(wrong + "\n" + REGIONS)
        with self.assertRaises(LabError):
            parsed("")
        with self.assertRaises(LabError):
            parsed(REGIONS.replace("r2", "r1"))
        with self.assertRaises(LabError):
            scenario.load("no-such-scenario")

    def test_delay_between_regions_is_the_sum_of_both_accesses(self):
        read = parsed(REGIONS)
        self.assertEqual(read.delay_us(1, 2), 115_000)
        self.assertEqual(read.delay_us(1, 1), 0)


class Trees(unittest.TestCase):
    def test_chain_takes_the_shorter_way(self):
        best = tree.best(parsed(REGIONS))
        self.assertEqual(best.edges(), [(0, 1), (1, 2)])
        self.assertEqual(tree.longest_us(parsed(REGIONS), best), 158_000)

    def test_star(self):
        best = tree.best(parsed(REGIONS), root_children=2)
        self.assertEqual(sorted(best.edges()), [(0, 1), (0, 2)])
        self.assertEqual(tree.longest_us(parsed(REGIONS), best), 72_000)

    def test_home_region_comes_first_and_is_no_wan(self):
        read = parsed(REGIONS.replace('name = "home"', 'name = "home"\nnodes = 1'))
        best = tree.best(read)
        self.assertEqual(best.order[0], 0)
        self.assertNotIn((0, 0), tree.wan_edges(best))

    def test_shape_with_fan_out(self):
        self.assertEqual(tree.shaped(range(7), 1, 2).parent, (-1, 0, 0, 1, 1, 2, 2))
        self.assertEqual(tree.shaped(range(3), 1, 0).parent, (-1, -1, -1))

    def test_late_regions_are_no_part(self):
        read = parsed(REGIONS.replace('name = "r2"', 'name = "r2"\njoins_at_s = 5'))
        self.assertEqual(tree.best(read).edges(), [(0, 1)])


class BareTcp(unittest.TestCase):
    def test_bound_of_the_reference_run(self):
        self.assertAlmostEqual(bare.bound_seconds(256 << 20, 200e6, 158_000), 11.385, places=3)

    def test_rate_asked_is_that_of_the_tightest_access(self):
        read = parsed(REGIONS)
        self.assertEqual(bare.tree_rate_asked(read, tree.best(read)), 100e6)
        self.assertEqual(bare.tree_rate_asked(read, tree.best(read, root_children=2)), 100e6)

    def test_slowest_edge_is_the_longer_among_equals(self):
        read = parsed(REGIONS)
        self.assertEqual(bare.slowest(read, [(0, 1), (1, 2)], [200.0, 199.0]), (1, 2))
        self.assertEqual(bare.slowest(read, [(0, 1), (1, 2)], [100.0, 199.0]), (0, 1))


    def test_bbr_where_nothing_hinders_its_acknowledgements(self):
        read = parsed(REGIONS)
        self.assertEqual(bare.choices(read, tree.best(read)), [["cubic", "bbr"], ["cubic", "cubic"]])
        lossy = parsed(REGIONS.replace("delay_ms = 43", "delay_ms = 43\nloss_percent = 0.1"))
        self.assertEqual(bare.choices(lossy, tree.best(lossy)), [["bbr", "bbr"]])


class Wire(unittest.TestCase):
    def test_payload_is_what_is_no_header(self):
        self.assertEqual(netem.Traffic(10 * 1514 + 5 * 66, 15, 0).payload(), 10 * 1448)
        self.assertEqual(netem.Traffic(100, 2, 1) - netem.Traffic(40, 1, 1), netem.Traffic(60, 1, 0))

    def test_cut_access_keeps_its_delay_and_rate(self):
        access = scenario.Access(5_000_000, 7_000_000, 43_000, 0.1)
        down, up = netem.change(access, "vec0", 100)
        self.assertEqual(down[-4:], ["loss", "100%", "rate", "7000000bit"])
        self.assertEqual(up[-4:], ["loss", "100%", "rate", "5000000bit"])
        self.assertIn("43000us", down)
        self.assertEqual(netem.change(access, "vec0")[0][-4:], ["loss", "0.1%", "rate", "7000000bit"])


def status(life, into, sent, received=0, version=2, used=1000):
    return {
        "started_ms": life, "node": "k",
        "copies": [{"channel": "lab", "version": version, "region": into, "payload_bytes": sent, "used_bytes": used}],
        "links": [{"node": "peer", "region": into, "payload_sent": sent, "payload_received": received, "control_sent": 7}],
    }


class Ledgers(unittest.TestCase):
    def test_a_killed_sender_still_counts(self):
        ledger = Ledger()
        ledger.update("r1-n1", "r1", status(1, "r2", 400))
        ledger.update("r1-n1", "r1", status(1, "r2", 500))
        ledger.update("r1-n1", "r1", status(2, "r2", 300))  # started again: counts from nothing
        ledger.update("r1-n2", "r1", status(1, "r2", 200))
        self.assertEqual(ledger.payload_into("r2", {2}), 1000)
        self.assertEqual(ledger.payload_from("r1-n1", {2}), 800)
        self.assertEqual(ledger.payload_into("r2", {3}), 0)
        self.assertEqual(ledger.used_bytes(2), 1000)
        self.assertEqual(ledger.control_bytes(), 21)

    def test_the_own_region_is_no_wan(self):
        ledger = Ledger()
        ledger.update("r1-n1", "r1", status(1, "r1", 400, 50))
        self.assertEqual(ledger.payload_into("r1", {2}), 0)
        self.assertEqual(ledger.link_payload(), {})


class FakeFleet:
    def __init__(self, ledger):
        self.ledger = ledger
        self.daemons = {}
        self.polled = []

    def poll_one(self, daemon):
        self.polled.append(daemon)


class FakeNetwork:
    def __init__(self):
        self.done = []

    def cut(self, region):
        self.done.append(f"cut {region}")

    def heal(self, region):
        self.done.append(f"heal {region}")


class FaultTimes(unittest.TestCase):
    def test_a_cut_at_half_is_healed(self):
        read = parsed('[payload]\ntravels_mib = 1\n[[fault]]\ndo = "cut"\ntarget = "r2"\nat_share = 0.5\nfor_s = 0\n' + REGIONS)
        ledger, network = Ledger(), FakeNetwork()
        plan = faults.Faults(read, network, FakeFleet(ledger), lambda line: None)
        ledger.update("r1-n1", "r1", status(1, "r2", 500_000))
        plan.step(2, 0.0)
        self.assertEqual(network.done, [])
        ledger.update("r1-n1", "r1", status(1, "r2", 530_000))
        plan.step(2, 0.0)
        plan.step(2, 0.0)
        self.assertEqual(network.done, ["cut r2", "heal r2"])
        self.assertFalse(plan.pending())


class Thing:
    """Whatever has these attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def played_run(**changes):
    """A run of one version to r1 and r2, as report.assemble() sees it when it is over."""
    read = parsed(REGIONS)
    ledger = Ledger()
    ledger.update("trainer", "home", status(1, "r1", 1000))
    ledger.update("r1-n1", "r1", status(1, "r2", 1000))
    daemons = {name: Thing(name=name, region=region, node=Thing(access=access)) for name, region, access in
               (("trainer", "home", 0), ("r1-n1", "r1", 1), ("r2-n1", "r2", 2))}
    fleet = Thing(
        ledger=ledger, daemons=daemons, live_nodes=lambda: [daemons["r1-n1"], daemons["r2-n1"]], late=lambda name: False,
        staged_at=lambda name, version: {"r1-n1": 102.0, "r2-n1": 103.0}[name],
        first_chunk={("r1-n1", 2): 100.143, ("r2-n1", 2): 100.3}, seen={"r1-n1": {2}, "r2-n1": {2}},
        usage=Thing(peak={"trainer": 5, "r1-n1": 6}), close=lambda: None)
    version = Thing(number=2, dead=False, start_of_clock=lambda: 100.0, reading=Thing(by=lambda at: 30 if at >= 100.1 else 0),
                    seed=Thing(reply=lambda: {"delta_bytes": 1 << 30, "input_bytes": 60}))
    down = netem.Traffic(1046 + 66, 2, 0)  # one data packet and one acknowledgement
    run = Thing(
        scenario=read, fleet=fleet, versions=[version], complete=True, verify=lambda: {"r1-n1": "", "r2-n1": ""},
        received_before={}, traffic={name: (netem.Traffic(), down) for name in ("home", "r1", "r2")},
        control_into_before={"r1": 0, "r2": 0}, payload_into_before={"r1": 0, "r2": 0}, control_before=0, retransmitted=0, congestion="cubic", others=0.0, metrics={},
        cpu={"trainer": 2.0, "r1-n1": 4.0}, faults=Thing(hit={}), report=lambda line: None,
        bulk={1: Thing(at={"p": 101.9}), 2: Thing(at={"p": 102.7})}, network=Thing(lan_port=lambda node: "p"),
        bare=lambda size: bare.Bare(1e8, 9e7, "cubic", 2.0, 1.9, 2.5, "home-r1", "cubic"))
    for name, value in changes.items():
        setattr(run, name, value)
    return run


class Reports(unittest.TestCase):
    def test_a_good_run(self):
        said = report.assemble(played_run())
        self.assertTrue(said["bit_identical"])
        self.assertEqual(said["last_node_seconds"], 3.0)
        self.assertEqual((said["ratio_to_bound"], said["ratio_to_floor"]), (1.5, 1.2))
        self.assertEqual(said["trainer_upload_copies"], 1.0)
        self.assertEqual(said["wan_payload_copies"], {"r1": 1.0, "r2": 1.0})
        self.assertEqual(said["wan_wire_copies"], {"r1": 1.112, "r2": 1.112})
        self.assertEqual((said["first_chunk_fraction"], said["first_chunk_seconds"]), (0.5, 0.3))
        self.assertEqual(said["staged_after_last_byte_seconds"], 0.3)
        self.assertEqual(said["cpu_seconds_per_gib"]["trainer"], 2.0)

    def test_every_key_of_the_contract_is_there(self):
        wanted = {"bound_seconds", "floor_seconds", "rate_asked", "rate_measured", "last_node_seconds", "ratio_to_bound",
                  "ratio_to_floor", "trainer_upload_copies", "wan_payload_copies", "wan_wire_copies", "retransmitted_bytes",
                  "control_bytes", "bit_identical", "rss_anon_bytes", "cpu_seconds_per_gib", "first_chunk_fraction",
                  "first_chunk_seconds", "staged_after_last_byte_seconds"}
        self.assertEqual(wanted - report.assemble(played_run()).keys(), set())
        self.assertEqual(wanted - report.assemble(played_run(complete=False)).keys(), set())

    def test_what_makes_it_no_success(self):
        self.assertFalse(report.assemble(played_run(complete=False))["bit_identical"])
        self.assertFalse(report.assemble(played_run(verify=lambda: {"r1-n1": "", "r2-n1": "differs"}))["bit_identical"])
        self.assertFalse(report.assemble(played_run(verify=dict))["bit_identical"])
        run = played_run()
        run.versions.insert(0, Thing(number=1, dead=True))
        self.assertTrue(report.assemble(run)["bit_identical"])
        run.fleet.seen["r2-n1"] = {1, 2}
        self.assertFalse(report.assemble(run)["bit_identical"])

    def test_bytes_that_nobody_admits_to_are_a_warning(self):
        run = played_run()
        self.assertTrue(any("r2" in line for line in report.assemble(played_run(
            traffic={**run.traffic, "r2": (netem.Traffic(), netem.Traffic(2000, 2, 0))}))["warnings"]))


class Requests(unittest.TestCase):
    def test_they_fit_the_routers_console_and_keep_their_order(self):
        commands = [["tc", "x" * 90, str(i)] for i in range(100)]
        groups = list(router._by_size(commands, 2000))
        self.assertEqual(sum(groups, []), commands)
        self.assertGreater(len(groups), 4)
        self.assertTrue(all(len(str(group)) < 2600 for group in groups))
        self.assertEqual(list(router._by_size([["y" * 5000]], 2000)), [[["y" * 5000]]])


class Comparison(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for side in ("a", "b"):
            os.makedirs(f"{self.folder.name}/{side}/sub")
            for name, data in (("x", b"1" * 10), ("sub/y", b"2" * 10)):
                with open(f"{self.folder.name}/{side}/{name}", "wb") as file:
                    file.write(data)

    def compare(self):
        return payload.difference(f"{self.folder.name}/a", f"{self.folder.name}/b")

    def test_same(self):
        self.assertEqual(self.compare(), "")

    def test_one_byte(self):
        with open(f"{self.folder.name}/b/sub/y", "r+b") as file:
            file.seek(9)
            file.write(b"3")
        self.assertIn("sub/y", self.compare())

    def test_longer(self):
        with open(f"{self.folder.name}/b/x", "ab") as file:
            file.write(b"1")
        self.assertIn("x", self.compare())

    def test_missing(self):
        os.remove(f"{self.folder.name}/b/x")
        self.assertIn("other files: x", self.compare())


if __name__ == "__main__":
    unittest.main()
