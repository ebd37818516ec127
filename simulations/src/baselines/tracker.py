"""A BitTorrent tracker, as small as it can be: announces in, everybody else's address out (BEP 3 and 23).

    python3 tracker.py ADDRESS PORT

Each announce becomes a line "IP LEFT" on standard output. On asyncio alone: http.server looks its own name up before it
listens, which hangs for tens of seconds in a namespace without a resolver.
"""

import asyncio
import socket
import struct
import sys
from urllib.parse import unquote_to_bytes

INTERVAL_SECONDS = 5


class Tracker:
    def __init__(self):
        self._swarms = {}  # info-hash -> {(ip, port)}

    async def serve(self, reader, writer):
        try:
            request = (await reader.readline()).decode("latin-1")
            while (await reader.readline()).strip():
                pass
            ip = writer.get_extra_info("peername")[0]
            body = self._announce(ip, request.split(" ")[1])
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        except (ConnectionError, IndexError, KeyError, ValueError):
            pass
        finally:
            writer.close()

    def _announce(self, ip, target):
        query = dict(part.split("=", 1) for part in target.split("?", 1)[1].split("&") if "=" in part)
        swarm = self._swarms.setdefault(unquote_to_bytes(query["info_hash"]), set())
        peer = (ip, int(query["port"]))
        others = [other for other in swarm if other != peer]
        swarm.add(peer)
        print(ip, query.get("left", ""), flush=True)
        peers = b"".join(socket.inet_aton(host) + struct.pack(">H", port) for host, port in others)
        return b"d8:intervali%de12:min intervali1e5:peers%d:%se" % (INTERVAL_SECONDS, len(peers), peers)


async def main(address, port):
    server = await asyncio.start_server(Tracker().serve, address, port)
    async with server:
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
