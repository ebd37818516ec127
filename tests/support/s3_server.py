"""A small S3-compatible store for tests, which checks every signature by itself (AWS Signature Version 4, header form).

s3_server.py --listen ADDRESS:PORT --folder FOLDER --id ID --secret SECRET --log FILE

Objects of bucket B lie in FOLDER/B/. Each request is one line of FILE: method, path, status. Knows PUT, GET with ranges, HEAD
and DELETE, as p2pw uses them. Python standard library only; ends with SIGTERM.
"""

import argparse
import datetime
import hashlib
import hmac
import http.server
import os
import re
import sys
import threading
import urllib.parse

AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                           r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$")
SAFE_PATH = re.compile(r"/[A-Za-z0-9._/-]+$")
MAX_SKEW = datetime.timedelta(minutes=15)


def keyed(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Refused(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, status):
        with self.server.lock:
            self.server.log.write(f"{self.command} {self.path} {status}\n")
            self.server.log.flush()

    def answer(self, status, body=b"", headers=(), length=None):
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def check_signature(self):
        match = AUTHORIZATION.match(self.headers.get("Authorization", ""))
        if not match:
            raise Refused(403, "AccessDenied")
        key_id, day, region, names, signature = match.groups()
        if key_id != self.server.key_id:
            raise Refused(403, "InvalidAccessKeyId")
        names = names.split(";")
        if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names):
            raise Refused(403, "AccessDenied")
        date = self.headers["x-amz-date"]
        when = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs(datetime.datetime.now(datetime.timezone.utc) - when) > MAX_SKEW or not date.startswith(day):
            raise Refused(403, "RequestTimeTooSkewed")
        path, _, query = self.path.partition("?")
        canonical = "\n".join([self.command, urllib.parse.quote(path, safe="/-_.~"), query,
                               "".join(f"{name}:{self.headers[name].strip()}\n" for name in names), ";".join(names),
                               self.headers["x-amz-content-sha256"]])
        scope = f"{day}/{region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = keyed(keyed(keyed(keyed(b"AWS4" + self.server.secret.encode(), day), region), "s3"), "aws4_request")
        if not hmac.compare_digest(keyed(key, text).hex(), signature):
            raise Refused(403, "SignatureDoesNotMatch")

    def place(self):
        path = self.path.partition("?")[0]
        if not SAFE_PATH.match(path) or ".." in path:
            raise Refused(400, "InvalidURI")
        return os.path.join(self.server.folder, path.lstrip("/"))

    def serve(self):
        body = b""
        try:
            place = self.place()
            self.check_signature()
            if self.command == "PUT":
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.put(place, body)
            elif self.command == "DELETE":
                if os.path.isfile(place):
                    os.remove(place)
                self.answer(204)
            else:
                self.get(place)
        except Refused as refused:
            # What is still to be read is not worth reading.
            self.close_connection = self.command == "PUT"
            text = f"<?xml version=\"1.0\"?><Error><Code>{refused.code}</Code><Message>refused</Message></Error>"
            self.answer(refused.status, text.encode(), [("Content-Type", "application/xml")])

    def put(self, place, body):
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            raise Refused(400, "XAmzContentSHA256Mismatch")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        temporary = f"{place}.{threading.get_ident()}"
        with open(temporary, "wb") as file:
            file.write(body)
        os.replace(temporary, place)
        self.answer(200)

    def get(self, place):
        if not os.path.isfile(place):
            raise Refused(404, "NoSuchKey")
        size = os.path.getsize(place)
        wanted = re.match(r"bytes=(\d+)-(\d+)$", self.headers.get("Range", ""))
        with open(place, "rb") as file:
            if not wanted:
                self.answer(200, b"" if self.command == "HEAD" else file.read(), length=size)
                return
            first, last = int(wanted.group(1)), min(int(wanted.group(2)), size - 1)
            if first > last:
                raise Refused(416, "InvalidRange")
            file.seek(first)
            self.answer(206, file.read(last - first + 1), [("Content-Range", f"bytes {first}-{last}/{size}")])

    do_GET = do_HEAD = do_PUT = do_DELETE = serve


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("listen", "folder", "id", "secret", "log"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    address, _, port = options.listen.rpartition(":")
    server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
    server.daemon_threads = True
    server.lock = threading.Lock()
    server.log = open(options.log, "a", encoding="utf-8")
    server.folder, server.key_id, server.secret = options.folder, options.id, options.secret
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
