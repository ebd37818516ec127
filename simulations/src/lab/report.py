"""From one run's readings to the JSON of the lab."""

from .host import LabError

GIB = 1 << 30
CROSS_CHECK = 0.005       # wire against senders' counters
BUSY = 0.1                # of all cores, by others
TLS_RECORD = 22 / 16384   # bytes of TLS for each byte of bulk


def share(part, whole):
    return part / whole if whole else None


def rounded(value, digits=4):
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry, digits) for entry in value]
    return round(value, digits) if isinstance(value, float) else value


def role_of(run, name, used):
    if name in ("trainer", "seed"):
        return name
    taken = run.fleet.ledger.link_payload().get(name, 0) - run.received_before.get(name, 0)
    return "gateway" if taken > used * 0.02 else "node"


def node_seconds(run, version):
    """{node: seconds from the seed's first read to staged}, live nodes that were there from the start."""
    seconds = {}
    for daemon in run.fleet.live_nodes():
        at = run.fleet.staged_at(daemon.name, version.number)
        if at is not None and not run.fleet.late(daemon.name):
            seconds[daemon.name] = at - version.start_of_clock()
    return seconds


def copies(run, counted, used):
    ledger = run.fleet.ledger
    remote = [region.name for region in run.scenario.remote() if region.nodes and not region.joins_at_seconds]
    payload = {name: share(ledger.payload_into(name, counted), used) for name in remote}
    wire = {name: share(run.traffic[name][1].bytes, used) for name in remote}
    return payload, wire, share(ledger.payload_from("trainer", counted), used)


def late_copies(run, counted):
    """Into regions that started late, of the whole lineage from the warm-up on."""
    ledger = run.fleet.ledger
    every = counted | {1}
    used = sum(ledger.used_bytes(number) for number in every)
    return {region.name: share(ledger.payload_into(region.name, every), used)
            for region in run.scenario.remote() if region.joins_at_seconds}


def late_nodes(run):
    """Whoever joined late: seconds from its daemon's start to the first version staged, and what it certified last."""
    found = {}
    for daemon in run.fleet.live_nodes():
        if run.fleet.late(daemon.name):
            reached, joined = run.fleet.reached.get(daemon.name, []), run.fleet.joined.get(daemon.name)
            found[daemon.name] = {
                "staged_seconds": reached[0][1] - joined if reached and joined else None,
                "staged_version": reached[-1][0] if reached else 0,
                "certified_version": run.fleet.certified.get(daemon.name, (0, 0))[0],
            }
    return found


def cross_check(run):
    """How much more TCP payload netem saw come into each region than the senders say they wrote, as a share.

    Of all versions: what is left of a dead one may still be on its way.
    """
    ledger = run.fleet.ledger
    result = {}
    for region in run.scenario.remote():
        control = ledger.control_into(region.name) - run.control_into_before[region.name]
        payload = ledger.payload_into(region.name) - run.payload_into_before[region.name]
        told = payload * (1 + TLS_RECORD) + control
        if payload > 0:
            result[region.name] = run.traffic[region.name][1].payload() / told - 1
    return result


def first_chunk(run, version):
    """(share of the checkpoint diffed when the first chunk left the trainer, seconds until each region had its first)."""
    regions = {}
    for (name, number), at in run.fleet.first_chunk.items():
        daemon = run.fleet.daemons[name]
        if number == version.number and daemon.node.access != 0 and not run.fleet.late(name):
            regions[daemon.node.access] = min(at, regions.get(daemon.node.access, at))
    if not regions:
        return None, None
    left = min(at - run.scenario.delay_us(0, index) / 1e6 for index, at in regions.items())
    return diffed_share(run, version, left), max(regions.values()) - version.start_of_clock()


def diffed_share(run, version, at):
    """What the seed had read by then; for a delta it reads the parent as well."""
    whole = version.seed.reply().get("input_bytes")
    if not whole:
        return None
    return min(1.0, version.reading.by(at) / (whole * (2 if run.scenario.payload.kind == "delta" else 1)))


def after_last_byte(run, version):
    """Over all nodes, the longest time from the last bulk that the LAN brought to it to staged."""
    longest = None
    for daemon in run.fleet.live_nodes():
        at = run.fleet.staged_at(daemon.name, version.number)
        last = run.bulk[daemon.node.access].at.get(run.network.lan_port(daemon.node))
        if at is not None and last is not None and not run.fleet.late(daemon.name):
            longest = max(longest or 0.0, at - last)
    return longest


def usage(run, delta_bytes, used):
    """Peak memory and CPU seconds for each GiB of delta, by role: the largest of a role, and the mean."""
    memory, cpu = {}, {}
    for name, seconds in run.cpu.items():
        role = role_of(run, name, used)
        memory[role] = max(memory.get(role, 0), run.fleet.usage.peak.get(name, 0))
        cpu.setdefault(role, []).append(seconds)
    gib = delta_bytes / GIB
    return memory, {role: sum(times) / len(times) / gib for role, times in cpu.items()} if gib else {}


def times(run, versions):
    seconds = {version.number: node_seconds(run, version) for version in versions}
    fraction, first_seconds = first_chunk(run, versions[0])
    return {
        "last_node_seconds": max((max(of.values()) for of in seconds.values() if of), default=None),
        "first_chunk_fraction": fraction,
        "first_chunk_seconds": first_seconds,
        "staged_after_last_byte_seconds": after_last_byte(run, versions[-1]),
        "node_seconds": {str(number): of for number, of in seconds.items()},
    }


def bytes_moved(run, counted, used):
    ledger = run.fleet.ledger
    payload, wire, upload = copies(run, counted, used)
    return {
        "trainer_upload_copies": upload,
        "wan_payload_copies": payload,
        "wan_wire_copies": wire,
        "late_region_copies": late_copies(run, counted),
        "retransmitted_bytes": run.retransmitted,
        "duplicate_bytes": ledger.duplicates(counted),
        "control_bytes": ledger.control_bytes() - run.control_before,
        "wire_over_payload": cross_check(run),
        "senders": ledger.senders(counted),
    }


def against_bare_tcp(bare, slowest):
    """All null without a complete run: then nothing was measured."""
    return {
        "bound_seconds": bare and bare.bound_seconds,
        "bound_asked_seconds": bare and bare.bound_asked_seconds,
        "floor_seconds": bare and bare.floor_seconds,
        "rate_asked": bare and bare.rate_asked,
        "rate_measured": bare and bare.rate_measured,
        "ratio_to_bound": bare and slowest and slowest / bare.bound_seconds,
        "ratio_to_floor": bare and slowest and slowest / bare.floor_seconds,
        "rate_congestion": bare and bare.rate_congestion,
        "floor_edge": bare and bare.floor_edge,
    }


def identical(run, dead):
    """Whether every live node has the last version, bit for bit, and none ever had a dead one."""
    differences = run.verify()
    for name, words in differences.items():
        if words:
            run.report(f"{name}: {words}")
    resurrected = sorted(name for name, seen in run.fleet.seen.items() if seen & dead)
    if resurrected:
        run.report(f"had a dead version: {', '.join(resurrected)}")
    return run.complete and bool(differences) and not any(differences.values()) and not resurrected


def warnings(run, checked):
    """A region that was cut off gets less than was written towards it."""
    cut = {fault.target for fault in run.scenario.faults if fault.do == "cut"}
    lines = [f"{name}: netem saw {more:+.2%} of what senders wrote" for name, more in checked.items()
             if more > CROSS_CHECK or (more < -CROSS_CHECK and not cut)]
    if run.others > BUSY:
        lines.append(f"other programs used {run.others:.0%} of this machine meanwhile: times say little")
    return lines


def assemble(run):
    versions = [version for version in run.versions if not version.dead]
    dead = {version.number for version in run.versions if version.dead}
    counted = {version.number for version in versions}
    if not versions:
        raise LabError("no version lived")
    used = sum(run.fleet.ledger.used_bytes(number) for number in counted)
    delta_bytes = sum(v.seed.reply().get("delta_bytes") or run.fleet.ledger.used_bytes(v.number) for v in versions)
    bit_identical = identical(run, dead)
    timed, moved = times(run, versions), bytes_moved(run, counted, used)
    memory, cpu = usage(run, delta_bytes, used)
    run.fleet.close()
    bare = run.bare(delta_bytes // len(versions)) if run.complete else None
    return rounded({
        "scenario": run.scenario.name,
        "complete": run.complete,
        "bit_identical": bit_identical,
        "versions": len(versions),
        "dead_versions": sorted(dead),
        "delta_bytes": delta_bytes,
        **against_bare_tcp(bare, timed["last_node_seconds"]),
        **timed,
        **moved,
        "late_nodes": late_nodes(run),
        "rss_anon_bytes": memory,
        "cpu_seconds_per_gib": cpu,
        "congestion": run.congestion,
        "metrics": run.metrics,
        "faults": run.faults.hit,
        "other_cpu_share": run.others,
        "warnings": warnings(run, moved["wire_over_payload"]),
    })
