"""Who may include whom. The rules are the architecture: a wrong arrow fails here, not in a review.

Python standard library only; `python3 tests/layering/layering_test.py`.
"""

import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')

NETWORK = r"sys/socket\.h|netinet/|arpa/inet\.h|netdb\.h|boost/asio|boost/beast|curl/|libtorrent/|openssl/ssl"
FILES = r"fstream|filesystem|fcntl\.h|unistd\.h|sys/stat\.h|sys/mman\.h"
THREADS = r"thread|mutex|condition_variable|future|shared_mutex"

# For each folder, the longest matching prefix counts: what of the project it may include, and which system or library
# headers it may not.
RULES = {
    "protocol/": (r"protocol/", rf"({NETWORK}|{FILES}|{THREADS})"),
    "chunker/": (r"(chunker|protocol)/", rf"({NETWORK})"),
    "daemon/client/": (r"(daemon/client|protocol)/", r"(libtorrent|curl)/"),
    "daemon/": (r"(daemon/(?!swarm/)|daemon/swarm/swarm\.h|chunker/|protocol/)", r"libtorrent/"),
    "daemon/swarm/": (r"(daemon/(swarm|client)|chunker|protocol)/", r"(?!)"),  # the libtorrent adapter
    "daemon/swarm/swarm.h": (r"(chunker|protocol)/", r"libtorrent/"),
    "daemon/main.cpp": (r"(daemon|chunker|protocol)/", r"libtorrent/"),
    "cli/": (r"(cli|daemon/client|chunker|protocol)/", r"(libtorrent|curl)/"),
}


def rule_for(path):
    return RULES[max((prefix for prefix in RULES if path.startswith(prefix)), key=len)]


def violations(path, text):
    allowed, forbidden = rule_for(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, header = match.groups()
        if kind == '"' and not re.match(allowed, header):
            yield f'{path}:{number}: includes "{header}"; here only {allowed} may be included'
        if kind == "<" and re.match(forbidden, header):
            yield f"{path}:{number}: includes <{header}>, which this folder may not use"


def sources():
    for top in ("protocol", "chunker", "daemon", "cli"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".h", ".cpp", ".inc")):
                    path = os.path.join(folder, name)
                    yield os.path.relpath(path, ROOT), path


class Layering(unittest.TestCase):
    def test_every_source_keeps_to_its_layer(self):
        found = []
        count = 0
        for path, absolute in sources():
            with open(absolute, encoding="utf-8") as file:
                found += violations(path, file.read())
            count += 1
        self.assertGreater(count, 50, "the sources were not found")
        self.assertEqual(found, [])

    def test_project_headers_are_included_in_quotes(self):
        found = []
        for path, absolute in sources():
            with open(absolute, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    match = INCLUDE.match(line)
                    if match and match.group(1) == "<" and re.match(r"(protocol|chunker|daemon|cli)/", match.group(2)):
                        found.append(f"{path}:{number}")
        self.assertEqual(found, [])

    def test_wrong_arrows_are_found(self):
        wrong = [
            ("protocol/a.h", '#include "chunker/layout.h"'),
            ("protocol/a.cpp", "#include <sys/socket.h>"),
            ("protocol/a.cpp", "#include <thread>"),
            ("protocol/a.cpp", "# include <fstream>"),
            ("chunker/a.cpp", '#include "daemon/core/x.h"'),
            ("chunker/codec/a.cpp", "#include <boost/asio/io_context.hpp>"),
            ("daemon/client/a.cpp", '#include "daemon/core/x.h"'),
            ("daemon/client/a.cpp", '#include "chunker/layout.h"'),
            ("daemon/core/a.cpp", '#include "cli/verb.h"'),
            ("daemon/core/a.cpp", '#include "daemon/swarm/swarm_libtorrent.h"'),
            ("daemon/core/a.cpp", "#include <libtorrent/session.hpp>"),
            ("daemon/swarm/swarm.h", "#include <libtorrent/session.hpp>"),
            ("daemon/swarm/torrent.cpp", '#include "daemon/core/x.h"'),
            ("cli/a.cpp", '#include "daemon/core/x.h"'),
            ("cli/a.cpp", '#include "daemon/link/link_hub.h"'),
            ("cli/a.cpp", '#include "tests/support/temp_dir.h"'),
        ]
        for path, line in wrong:
            self.assertEqual(len(list(violations(path, line))), 1, f"{path}: {line}")

    def test_right_arrows_pass(self):
        right = [
            ("protocol/a.cpp", '#include "protocol/links.pb.h"\n#include <sodium.h>'),
            ("chunker/a.cpp", '#include "protocol/ids.h"\n#include <filesystem>\n#include <thread>'),
            ("daemon/core/a.cpp", '#include "daemon/swarm/swarm.h"\n#include "chunker/layout.h"'),
            ("daemon/swarm/swarm_libtorrent.cpp", "#include <libtorrent/session.hpp>"),
            ("daemon/main.cpp", '#include "daemon/swarm/swarm_libtorrent.h"'),
            ("cli/a.cpp", '#include "daemon/client/config.h"\n#include "chunker/diff.h"'),
        ]
        for path, text in right:
            self.assertEqual(list(violations(path, text)), [], path)


if __name__ == "__main__":
    unittest.main()
