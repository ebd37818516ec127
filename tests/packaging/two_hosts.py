"""Installs the Debian package on two fresh hosts and types what daemon/docs/QUICKSTART.md says, as a newcomer would.

two_hosts.py --build BUILD [--keep]

A host is a debootstrap folder in a network namespace of its own; the two are joined by a veth pair. There is no systemd in
them: a stand-in for `systemctl` starts the daemon by hand, as user p2pw, with a notify socket, as the unit would. Needs
root, debootstrap and Debian's archive; without them it ends with 77 and says why. Python standard library only.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MIRROR = os.environ.get("P2PW_DEBIAN_MIRROR", "http://deb.debian.org/debian")
BLOCK = re.compile(r"<!-- run: (trainer|node) -->\n```sh\n(.*?)```", re.S)
SYSTEMCTL = """#!/bin/sh
[ "$*" = "enable --now p2pwd" ] || exit 1
NOTIFY_SOCKET=/run/notify setpriv --reuid p2pw --regid p2pw --clear-groups --no-new-privs --bounding-set=-all \\
  /usr/bin/p2pwd --config /etc/p2pw/p2pw.toml >/run/p2pwd.log 2>&1 </dev/null &
echo $! >/run/p2pwd.pid
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def skip(why):
    say(f"skipped: {why}")
    sys.exit(77)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Host:
    def __init__(self, name, folder, address):
        self.name, self.folder, self.address = name, folder, address
        self.space = f"p2pw-{name}-{os.getpid()}"
        self.notify = None

    def path(self, inside):
        return os.path.join(self.folder, inside.lstrip("/"))

    def begin(self):
        run("ip", "netns", "add", self.space)
        run("ip", "-n", self.space, "link", "set", "lo", "up")
        with open(self.path("/usr/local/bin/systemctl"), "w", encoding="utf-8") as file:
            file.write(SYSTEMCTL)
        os.chmod(self.path("/usr/local/bin/systemctl"), 0o755)
        for inside in ("/proc", "/dev"):
            run("mount", "--bind", inside, self.path(inside))
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.path("/run/notify"))
        os.chmod(self.path("/run/notify"), 0o666)

    def type(self, line, check=True):
        """One command line, at a root prompt."""
        command = ["ip", "netns", "exec", self.space, "chroot", self.folder, "/usr/bin/env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
                   "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", f"cd /root && {line}"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        if check and done.returncode != 0:
            raise SystemExit(f"{self.name}# {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}{self.log()}")
        return done.stdout

    def heard(self, wanted, seconds=60):
        """Waits until the daemon has said so to the service manager; returns the message."""
        self.notify.settimeout(seconds)
        while True:
            message = self.notify.recv(4096).decode()
            if wanted in message:
                return message

    def log(self):
        try:
            with open(self.path("/run/p2pwd.log"), encoding="utf-8", errors="replace") as file:
                return file.read()[-2000:]
        except OSError:
            return ""

    def end(self):
        try:
            with open(self.path("/run/p2pwd.pid"), encoding="utf-8") as file:
                pid = int(file.read())
            os.kill(pid, signal.SIGTERM)
            for _ in range(100):
                if not os.path.exists(f"/proc/{pid}"):
                    break
                time.sleep(0.1)
            else:
                os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            pass
        for inside in ("/proc", "/dev"):
            subprocess.run(["umount", "-l", self.path(inside)], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "del", self.space], stderr=subprocess.DEVNULL)


def make_package(build, folder):
    run("cpack", "-G", "DEB", "--config", os.path.join(build, "CPackConfig.cmake"), "-B", folder, cwd=folder)
    package, = glob.glob(os.path.join(folder, "p2pw_*.deb"))
    return package


def check_installed(host):
    for inside in ("/usr/bin/p2pw", "/usr/bin/p2pwd", "/usr/lib/systemd/system/p2pwd.service", "/usr/share/man/man1/p2pw.1.gz",
                   "/usr/share/man/man8/p2pwd.8.gz", "/usr/share/bash-completion/completions/p2pw",
                   "/usr/share/zsh/vendor-completions/_p2pw", "/usr/share/fish/vendor_completions.d/p2pw.fish",
                   "/usr/share/doc/p2pw/examples/p2pw.toml", "/usr/lib/python3/dist-packages/p2pw.py"):
        if not os.path.exists(host.path(inside)) and not os.path.exists(host.path(inside.removesuffix(".gz"))):
            raise SystemExit(f"the package has not installed {inside}")
    account = host.type("getent passwd p2pw")
    if ":/var/lib/p2pw:" not in account:
        raise SystemExit(f"no user p2pw: {account}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--keep", action="store_true", help="leave the folders")
    options = parser.parse_args()
    if os.geteuid() != 0:
        skip("needs root")
    for tool in ("debootstrap", "cpack", "ip"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")

    folder = tempfile.mkdtemp(prefix="p2pw-hosts-")
    hosts = []
    try:
        package = make_package(options.build, folder)
        base = os.path.join(folder, "base")
        say(f"{os.path.basename(package)}; a fresh Debian in {base}")
        done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", base, MIRROR], capture_output=True, text=True)
        if done.returncode != 0:
            skip("debootstrap cannot get Debian: " + (done.stdout + done.stderr)[-300:])
        shutil.copy(package, os.path.join(base, "root"))
        shutil.copy("/etc/resolv.conf", os.path.join(base, "etc/resolv.conf"))
        # The archive is reached from here; the namespaces reach only each other. What the guide types then finds the
        # package's libraries in place.
        run("chroot", base, "sh", "-c", "apt-get -qq update && apt-get -qq -y install --no-install-recommends "
            f"$(dpkg-deb -f /root/{os.path.basename(package)} Depends | sed 's/([^)]*)//g; s/,/ /g; s/|[^ ]*//g')")
        for name, address in (("trainer", "10.99.0.1"), ("node", "10.99.0.2")):
            where = os.path.join(folder, name)
            run("cp", "-a", base, where)
            hosts.append(Host(name, where, address))
        trainer, node = hosts
        for host in hosts:
            host.begin()
        run("ip", "link", "add", "p2pw0", "netns", trainer.space, "type", "veth", "peer", "name", "p2pw0", "netns", node.space)
        for host in hosts:
            run("ip", "-n", host.space, "addr", "add", host.address + "/24", "dev", "p2pw0")
            run("ip", "-n", host.space, "link", "set", "p2pw0", "up")
            run("ip", "-n", host.space, "route", "add", "default", "dev", "p2pw0")
        run(os.path.join(options.build, "bin", "p2pw-series"), trainer.path("/root/checkpoints"), "--bytes", "8MiB", "--steps", "1")
        os.rename(trainer.path("/root/checkpoints/step_0001"), trainer.path("/root/checkpoints/step_0100"))

        with open(os.path.join(ROOT, "daemon/docs/QUICKSTART.md"), encoding="utf-8") as file:
            guide = BLOCK.findall(file.read())
        typed, token = [], None
        for where, lines in guide:
            host = trainer if where == "trainer" else node
            for line in filter(None, lines.splitlines()):
                typed.append(f"{host.name}# {line}")
                say(typed[-1])
                out = host.type(line.replace("TOKEN", token) if token else line)
                if line.startswith("p2pw init"):
                    token = out.strip().splitlines()[-1]
                if line.startswith("systemctl"):
                    say("  " + host.heard("READY=1"))
                    say("  " + host.heard("WATCHDOG=1").replace("\n", " "))
                if line.startswith(("p2pw status", "p2pw verify", "p2pw seed")):
                    say("  " + out.strip().replace("\n", "\n  "))
        for host in hosts:
            check_installed(host)
        digests = [host.type("p2pw verify /var/lib/p2pw/channels/policy/current").splitlines()[-1] for host in hosts]
        source = trainer.type("p2pw verify checkpoints/step_0100").splitlines()[-1]
        if set(digests) != {source}:
            raise SystemExit(f"not the same checkpoint: {source} was published, the hosts have {digests}")
        # p2pw.py asks the daemon as a member of the group would; doctor finds nothing wrong on either host.
        for host in hosts:
            say(host.type("p2pw doctor").strip())
        until_rebuilt = next(i for i, line in enumerate(typed) if "p2pw seed" in line) + 1
        say(f"from nothing to a rebuilt checkpoint in {until_rebuilt} typed commands, of which {until_rebuilt - 1} set up both hosts")
        print("ok")
    finally:
        for host in hosts:
            host.end()
        if options.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


main()
