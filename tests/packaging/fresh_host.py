"""Debian hosts that nobody has touched: a debootstrap folder in namespaces of its own (network, mounts, processes, host
name). Standard library only; needs root, debootstrap and Debian's archive.

A host's namespaces live as long as one process, which ends with this one even when it is killed; processes, mounts and
network devices of the host go with it. Only its folder is left to remove.
"""

import configparser
import ctypes
import glob
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
MIRROR = os.environ.get("P2PW_DEBIAN_MIRROR", "http://deb.debian.org/debian")
OLD = 30 * 24 * 3600  # seconds until the cached Debian is taken anew

# There is no systemd in a chroot. This starts what the unit's ExecStart says, as its user, with its umask, folders and file
# limit, without privileges, and waits for READY=1 as systemd does; the unit's protection is not there.
SYSTEMCTL = """#!/bin/sh
[ "$*" = "enable --now p2pwd" ] || {{ echo "systemctl $*: not for this stand-in" >&2; exit 1; }}
[ -e "{ConditionPathExists}" ] || exit 0
install -d -m {StateDirectoryMode} -o {User} -g {Group} /var/lib/{StateDirectory}
umask {UMask}
ulimit -n {LimitNOFILE} 2>/dev/null || echo "systemctl: the file limit stays at $(ulimit -n)" >&2
NOTIFY_SOCKET=/run/notify STATE_DIRECTORY=/var/lib/{StateDirectory} setpriv --reuid {User} --regid {Group} --init-groups \\
  --no-new-privs --bounding-set=-all --inh-caps=-all {ExecStart} >/run/p2pwd.log 2>&1 </dev/null &
until [ -e /run/p2pwd.ready ]; do
  kill -0 $! 2>/dev/null || {{ cat /run/p2pwd.log >&2; exit 1; }}
  sleep 0.1
done
"""


BOOT = """hostname "$0" && cd "$1" && mount -t proc proc proc && mount -t tmpfs tmpfs run &&
mount -t devpts -o ptmxmode=0666 devpts dev/pts && echo up && exec sleep infinity"""


class Failed(Exception):
    pass


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def dies_with_us():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def unit_of(path):
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    parser.optionxform = str
    parser.read(path, encoding="utf-8")
    return {**parser["Unit"], **parser["Service"]}


def fresh_debian(cache, package, say):
    """A tar file of a minimal Debian 12 with `package`'s dependencies downloaded, but not installed."""
    wanted = re.sub(r"\([^)]*\)|\|[^,]*", "", run("dpkg-deb", "-f", package, "Depends")).replace(",", " ").split()
    # Hosts have no network: a tar without one of the dependencies would leave apt waiting for it.
    tar = os.path.join(cache, f"bookworm-{hashlib.sha256(' '.join(sorted(wanted)).encode()).hexdigest()[:12]}.tar")
    if os.path.exists(tar) and time.time() - os.path.getmtime(tar) < OLD:
        return tar
    say(f"debootstrap from {MIRROR}: some minutes; kept in {cache} for next time")
    os.makedirs(cache, exist_ok=True)
    base = os.path.join(cache, f"making-{os.getpid()}")
    try:
        run("debootstrap", "--variant=minbase", "bookworm", base, MIRROR, preexec_fn=dies_with_us)
        shutil.copyfile("/etc/resolv.conf", os.path.join(base, "etc/resolv.conf"))
        run("chroot", base, "apt-get", "-qq", "update", preexec_fn=dies_with_us)
        run("chroot", base, "apt-get", "-qq", "-y", "--download-only", "install", *wanted, preexec_fn=dies_with_us)
        run("tar", "-C", base, "--numeric-owner", "-cf", tar + ".new", ".", preexec_fn=dies_with_us)
        for old in glob.glob(os.path.join(cache, "bookworm*.tar")):
            os.remove(old)
        os.rename(tar + ".new", tar)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", base, tar + ".new"], check=False)
    return tar


class Host:
    def __init__(self, name, folder, tar):
        self.name, self.folder = name, folder
        self.messages, self.heard, self.wanted = [], threading.Condition(), True
        os.makedirs(folder)
        run("tar", "-C", folder, "-xf", tar, preexec_fn=dies_with_us)
        # --fork: the shell is process 1 of the host; --kill-child: it goes when its parent goes.
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "--pid", "--mount", "--propagation", "private", "--fork", "--kill-child",
             "sh", "-c", BOOT, name, folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=dies_with_us)
        if self.holder.stdout.readline() != "up\n":
            raise Failed(f"{name}: its namespaces cannot be made")
        children = run("cat", f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").split()
        self.first = children[0]
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *command):
        """With this machine's programs, in the host's network."""
        return run("nsenter", "--net", "--target", self.first, "--", *command)

    def path(self, inside):
        """A file of the host, as it is seen in the host's mounts."""
        return f"/proc/{self.first}/root{self.folder}/{inside.lstrip('/')}"

    def put_systemctl(self, unit):
        with open(self.path("/usr/local/bin/systemctl"), "w", encoding="utf-8") as file:
            file.write(SYSTEMCTL.format(**unit))
        os.chmod(self.path("/usr/local/bin/systemctl"), 0o755)
        # Made inside its own folder: the path to it from here is too long for a socket's address.
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        here = os.open(self.path("/run"), os.O_PATH)
        self.notify.bind(f"/proc/self/fd/{here}/notify")
        os.close(here)
        os.chmod(self.path("/run/notify"), 0o666)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while self.wanted:
            message = self.notify.recv(4096).decode()
            with self.heard:
                self.messages.append(message)
                self.heard.notify_all()
            if "READY=1" in message:
                open(self.path("/run/p2pwd.ready"), "w", encoding="utf-8").close()

    def said(self, word, seconds=60):
        """What the daemon told the service manager about `word`."""
        with self.heard:
            if not self.heard.wait_for(lambda: any(word in m for m in self.messages), seconds):
                raise Failed(f"{self.name}: p2pwd never said {word}: {self.messages}")
            return next(m for m in self.messages if word in m).replace("\n", " ")

    def type(self, line, answer="y\n", seconds=600):
        """One command line at a root prompt; questions are answered with yes. Its standard output and error."""
        command = ["nsenter", "--all", "--target", self.first, "--", "chroot", self.folder, "/usr/bin/env", "-i", "HOME=/root",
                   "USER=root", "LC_ALL=C.UTF-8", "TERM=dumb", "DEBIAN_FRONTEND=noninteractive",
                   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", f"cd /root && {line}"]
        done = subprocess.run(command, capture_output=True, text=True, input=answer, timeout=seconds, preexec_fn=dies_with_us)
        if done.returncode != 0:
            raise Failed(f"{self.name}# {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}{self.log()}")
        return done.stdout, done.stderr

    def log(self):
        try:
            with open(self.path("/run/p2pwd.log"), encoding="utf-8", errors="replace") as file:
                return file.read()[-2000:]
        except OSError:
            return ""

    def end(self):
        self.wanted = False
        self.holder.kill()
        self.holder.wait()


def join_by_cable(hosts, addresses):
    """A pair of network devices, one end in each host, and a default route as a provider would give."""
    one, two = hosts
    run("ip", "link", "add", "eth0", "netns", one.first, "type", "veth", "peer", "name", "eth0", "netns", two.first)
    for host, address in zip(hosts, addresses):
        host.inside("ip", "addr", "add", address + "/24", "dev", "eth0")
        host.inside("ip", "link", "set", "eth0", "up")
        host.inside("ip", "route", "add", "default", "dev", "eth0")
