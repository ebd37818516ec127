"""simulations/lab --selftest: does the emulated network do what was asked?"""

import time

from .network import Network
from .pump import Pump

RATE_SECONDS = 2.0
WARM_SECONDS = 4.0


def run(scenario, folder, binary, report):
    """Reports lines for people and returns the measured values."""
    begin = time.monotonic()
    network = Network(scenario, folder)
    try:
        network.open()
        ready = time.monotonic() - begin
        kind = "this kernel's netem" if network.on_host_kernel else "netem in a user-mode-linux router"
        report(f"{len(network.hosts)} machines in {len(scenario.regions)} regions, {kind}, up in {ready:.1f} s")
        return measure(network, binary, report)
    finally:
        network.close()


def first_of(network, index):
    return next(host for host in network.hosts if host.access == index)


def measure(network, binary, report):
    scenario = network.scenario
    sites = [first_of(network, i) for i in range(len(scenario.regions)) if any(h.access == i for h in network.hosts)]
    pump = Pump(network, binary, sites)
    congestion = scenario.congestion or ("bbr" if scenario.lossy() else "cubic")
    rows = []
    for a in sites:
        for b in sites:
            if a is b:
                continue
            asked = 2 * scenario.delay_us(a.access, b.access) / 1e6
            measured = pump.ping(a, b)
            warm = max(0.5, 10 * asked)
            path = min(scenario.regions[a.access].access.up_bits, scenario.regions[b.access].access.down_bits)
            alone = pump.rates([(a, b)], [congestion], warm, RATE_SECONDS)[0]
            rows.append({"from": a.region, "to": b.region, "rtt_asked": asked, "rtt_measured": measured,
                         "rate_asked": path, "rate_measured": alone})
            report(f"{a.region:>8} -> {b.region:8} round trip {measured * 1e3:6.1f} ms (asked {asked * 1e3:.1f}), "
                   f"{alone / 1e6:6.1f} Mbit/s on the wire (asked {path / 1e6:.0f})")
    before = network.traffic()
    chain = list(zip(sites, sites[1:]))
    together = pump.rates(chain, [congestion] * len(chain), WARM_SECONDS, RATE_SECONDS) if len(chain) > 1 else []
    if together:
        names = " -> ".join(site.region for site in sites)
        report(f"all at once along {names}: " + ", ".join(f"{rate / 1e6:.1f}" for rate in together) + " Mbit/s")
    counted = {name: [value - old for value, old in zip(now, before[name])] for name, now in network.traffic().items()}
    for name, (up, down) in counted.items():
        report(f"{name:>8}: up {up.bytes / 1e6:.1f} MB, {up.drops} dropped; down {down.bytes / 1e6:.1f} MB, {down.drops} dropped")
    pump.close()
    return {"edges": rows, "together": together}
