"""Small engines for tests: HTTP servers that answer as SGLang and vLLM document it, and plug-ins that speak p2pwd's own JSON.

They load for real: the safetensors files of the folder that they are told, so that what they serve can be compared with
what p2pwd believes. Faults are set from outside: `fault` names one, `shots` how often it strikes (None: until it is healed).
"""

import glob
import hashlib
import json
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Cut(Exception):
    """The connection ends without an answer."""


class Engine:
    def __init__(self):
        self.lock = threading.RLock()
        self.healed = threading.Event()
        self.told = []  # in words, with the answer
        self.fault, self.shots = None, None
        self.paused = False
        self.label, self.path = "default", ""
        self.files = {}  # name -> digest of what is loaded
        self.pauses = []  # (seconds from pause to continue, seconds in the load)
        self.paused_at = self.loading = 0.0

    def break_with(self, fault, shots=None):
        with self.lock:
            self.fault, self.shots = fault, shots
            self.told.clear()
            self.healed.clear()

    def heal(self):
        with self.lock:
            self.fault, self.shots = None, None
        self.healed.set()

    def strikes(self, *faults):
        with self.lock:
            if self.fault not in faults or self.shots == 0:
                return False
            if self.shots is not None:
                self.shots -= 1
            return True

    def read(self, folder, half=False):
        names = sorted(glob.glob(os.path.join(folder, "*.safetensors")))
        if not names:
            raise FileNotFoundError(folder)
        for name in names[: max(1, len(names) // 2)] if half else names:
            with open(name, "rb") as file:
                self.files[os.path.basename(name)] = hashlib.sha256(file.read()).hexdigest()

    def say(self, line):
        with self.lock:
            self.told.append(line)

    def pause(self):
        self.paused, self.paused_at, self.loading = True, time.monotonic(), 0.0

    def resume(self):
        if self.paused and self.loading:
            self.pauses.append((time.monotonic() - self.paused_at, self.loading))
        self.paused = False

    def restart(self):
        """As a supervisor would: down for a while, then up with whatever it was launched with."""
        self.label, self.path, self.files, self.paused = "default", "", {}, False


class HttpEngine(Engine):
    def __init__(self):
        super().__init__()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, method):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                try:
                    document = json.loads(body) if body else {}
                    status, reply = engine.route(method, parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()}, document)
                except Cut:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                text = reply.encode() if isinstance(reply, str) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                try:
                    self.wfile.write(text)
                except OSError:
                    pass

            def do_GET(self):
                self.answer("GET")

            def do_POST(self):
                self.answer("POST")

        self.handler = Handler
        self.port = 0
        self.server = None
        self.up()

    def up(self):
        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", self.port), self.handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def heal(self):
        super().heal()
        if self.server is None:
            self.up()

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def die_while_loading(self):
        threading.Thread(target=self.down).start()
        self.restart()
        raise Cut()

    def load(self, folder):
        """True when all of it is loaded. Adds up the time it takes."""
        begun = time.monotonic()
        hung = self.strikes("hang")
        try:
            if hung:
                self.healed.wait(60)
            if self.strikes("restart"):
                self.die_while_loading()
            if self.strikes("half"):
                self.read(folder, half=True)
                return False
            self.read(folder)
            return True
        finally:
            if not hung:  # nobody waits for it any more
                self.loading += time.monotonic() - begun


class Sglang(HttpEngine):
    """POST /pause_generation, /update_weights_from_disk, /continue_generation; GET /get_model_info."""

    def route(self, method, path, _query, body):
        if method == "GET" and path in ("/get_model_info", "/model_info"):
            return 200, {"model_path": self.path, "weight_version": self.label, "is_generation": True}
        if path == "/pause_generation":
            if self.strikes("pause"):
                self.say("pause -> 500")
                return 500, {"error": {"message": "scheduler is not responding"}}
            self.pause()
            self.say(f"pause ({body['mode']})")
            return 200, {"message": "Generation paused successfully.", "status": "ok"}
        if path == "/continue_generation":
            if self.strikes("continue"):
                self.say("continue -> cut off")
                raise Cut()
            self.resume()
            self.say("continue")
            return 200, {"message": "Generation continued successfully.", "status": "ok"}
        if path == "/update_weights_from_disk":
            return self.update(body)
        return 404, {"detail": "Not Found"}

    def update(self, body):
        version = body["weight_version"]

        def failed(message):
            self.say(f"load {version} -> 400")
            return 400, {"success": False, "message": message, "num_paused_requests": 0}

        if self.strikes("busy"):
            return failed("Cache flush failed after updating weights: 3 requests are running.")
        if self.strikes("refuse"):
            return failed(f"Failed to get weights iterator: {body['model_path']} (repository not found).")
        self.say(f"load {version}" + (" -> silence" if self.fault in ("hang", "restart") else ""))
        if not self.load(body["model_path"]):
            self.told.pop()
            return failed("Failed to update weights: CUDA out of memory. Rolling back to original weights.")
        if not self.strikes("label"):
            self.label, self.path = version, body["model_path"]
        return 200, {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}


class Vllm(HttpEngine):
    """POST /pause, /collective_rpc, /update_weight_version, /resume; GET /is_paused, /weight_info. For development only."""

    def route(self, method, path, query, body):
        if self.strikes("routes"):
            return 404, {"detail": "Not Found"}
        if method == "GET" and path == "/is_paused":
            return 200, {"is_paused": self.paused}
        if method == "GET" and path == "/weight_info":
            return 200, {"weight_version": self.label}
        if path == "/pause":
            if self.strikes("pause"):
                self.say("pause -> 500")
                return 500, {"error": "Failed to pause generation: engine core is dead"}
            self.pause()
            self.say(f"pause ({query['mode']})")
            return 200, {"status": "paused"}
        if path == "/resume":
            if self.strikes("continue"):
                self.say("continue -> cut off")
                raise Cut()
            self.resume()
            self.say("continue")
            return 200, {"status": "resumed"}
        if path == "/update_weight_version":
            if not self.strikes("label"):
                self.label = body["new_version"]
            return 200, {"success": True, "new_version": body["new_version"]}
        if path == "/collective_rpc" and body.get("method") == "reload_weights":
            return self.reload(body["kwargs"]["weights_path"])
        return 404, {"detail": "Not Found"}

    def reload(self, folder):
        if self.strikes("refuse", "busy"):
            self.say("load -> 500")
            return 500, "Internal Server Error"
        self.say("load" + (" -> silence" if self.fault in ("hang", "restart") else ""))
        if not self.load(folder):
            self.told.pop()
            self.say("load -> 500")
            return 500, "Internal Server Error"
        return 200, {"results": [None, None]}


class Plain(Engine):
    """p2pwd's own JSON: one document in, one out. For webhooks, sockets and programs."""

    def event(self, document):
        event = document["event"]
        if event == "prepare":
            return {"ok": True}
        if event == "version":
            return {"ok": True, "version": self.label}
        if self.strikes("refuse"):
            self.say(f"load {document['version']} -> no")
            return {"ok": False, "reason": "no memory left"}
        if self.strikes("hang"):
            self.say(f"load {document['version']} -> silence")
            self.healed.wait(60)
            raise Cut()
        self.say(f"load {document['version']}")
        self.read(document["checkpoint"])
        if not self.strikes("label"):
            self.label = str(document["version"])
        return {"ok": True}


class Webhook(Plain, HttpEngine):
    def route(self, method, path, _query, body):
        return (200, self.event(body)) if method == "POST" else (404, {})


class Socket(Plain):
    def __init__(self, path):
        super().__init__()
        self.path_of_socket = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with connection, connection.makefile("rw") as stream:
            try:
                line = stream.readline()
                stream.write(json.dumps(self.event(json.loads(line))) + "\n")
                stream.flush()
            except (Cut, OSError, ValueError):
                pass

    def down(self):
        self.listener.close()


class Program(Socket):
    """A program for `exec` that hands its standard input on to this one, over a socket."""

    SCRIPT = """#!/usr/bin/python3
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect({path!r})
    s.sendall(sys.stdin.read().encode() + b"\\n")
    sys.stdout.write(s.makefile().readline())
"""

    def __init__(self, folder):
        super().__init__(os.path.join(folder, "engine.sock"))
        self.program = os.path.join(folder, "hook")
        with open(self.program, "w") as file:
            file.write(self.SCRIPT.format(path=self.path_of_socket))
        os.chmod(self.program, 0o755)
