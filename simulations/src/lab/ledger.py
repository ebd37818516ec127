"""Bytes by (sender, region, version), as the senders' own counters say: pure.

A daemon's counters begin anew when it is started again, and are lost when it is killed, so the last reading of every
life of every daemon is kept and summed.
"""


class Ledger:
    def __init__(self):
        self._regions = {}   # daemon -> region
        self._copies = {}    # (daemon, life) -> {(channel, version, region): entry of status.copies}
        self._links = {}     # (daemon, life) -> {peer: entry of status.links}

    def update(self, name, region, status):
        life = (name, status.get("started_ms", 0))
        self._regions[name] = region
        copies = self._copies.setdefault(life, {})
        for entry in status.get("copies", []):
            copies[(entry["channel"], entry["version"], entry["region"])] = entry
        links = self._links.setdefault(life, {})
        for entry in status.get("links", []):
            old = links.get(entry["node"])
            links[entry["node"]] = entry if not old else _larger(old, entry)

    def _entries(self, versions):
        """What crossed regions; `versions` None = of all of them."""
        for (name, _), copies in self._copies.items():
            for (_, version, region), entry in copies.items():
                if (versions is None or version in versions) and region != self._regions[name]:
                    yield name, region, entry

    def payload_into(self, region, versions=None):
        return sum(entry["payload_bytes"] for _, into, entry in self._entries(versions) if into == region)

    def payload_from(self, sender, versions):
        return sum(entry["payload_bytes"] for name, _, entry in self._entries(versions) if name == sender)

    def senders(self, versions):
        """{daemon: {region: payload}}, for a look behind the sums."""
        sent = {}
        for name, into, entry in self._entries(versions):
            regions = sent.setdefault(name, {})
            regions[into] = regions.get(into, 0) + entry["payload_bytes"]
        return sent

    def duplicates(self, versions):
        return sum(entry.get("duplicate_bytes", 0) for _, _, entry in self._entries(versions))

    def used_bytes(self, version):
        """Of the version's bundles, as the one says who knows most of them."""
        return max((entry["used_bytes"] for copies in self._copies.values()
                    for (_, of, _), entry in copies.items() if of == version), default=0)

    def _wan_links(self):
        for (name, life), links in self._links.items():
            for entry in links.values():
                if entry.get("region") != self._regions[name]:
                    yield name, life, entry

    def control_bytes(self):
        """Control traffic written to other regions, by everyone since the start."""
        return sum(entry.get("control_sent", 0) for _, _, entry in self._wan_links())

    def link_payload(self):
        """{daemon: payload received from other regions}, over all its lives."""
        received = {}
        for name, _, entry in self._wan_links():
            received[name] = received.get(name, 0) + entry.get("payload_received", 0)
        return received

    def sent_over_links(self, name):
        return sum(entry.get("payload_sent", 0) for of, _, entry in self._wan_links() if of == name)

    def received_from(self, key):
        return sum(entry.get("payload_received", 0) for _, _, entry in self._wan_links() if entry["node"] == key)

    def link_payload_into(self, region):
        """Payload of every kind that senders elsewhere wrote into the region, by their links."""
        return sum(entry.get("payload_sent", 0) for _, _, entry in self._wan_links() if entry.get("region") == region)

    def control_into(self, region):
        return sum(entry.get("control_sent", 0) for _, _, entry in self._wan_links() if entry.get("region") == region)


def _larger(old, new):
    """Counters of a link that was lost and made again within one life may begin anew; they only count upwards here."""
    merged = dict(new)
    for key in ("payload_sent", "payload_received", "control_sent", "control_received"):
        merged[key] = max(old.get(key, 0), new.get(key, 0))
    return merged
