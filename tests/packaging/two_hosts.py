"""Installs the Debian package on two fresh Debian 12 hosts and types what README.md says, as a newcomer would: from nothing
to a rebuilt checkpoint in at most six commands, compared bit for bit.

The commands are README.md's own, then those that daemon/docs/QUICKSTART.md has on top. A host is a debootstrap folder in
namespaces of its own; a cable joins the two, and nothing else does: apt finds the package's dependencies downloaded. There
is no systemd in them, so `systemctl` is a stand-in that starts what the unit says (fresh_host.py). Needs root, debootstrap
and, the first time, Debian's archive; without them it ends with 77 and says why. Standard library only.
"""

import argparse
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fresh_host import Failed, Host, fresh_debian, join_by_cable, run, unit_of  # noqa: E402

BLOCK = re.compile(r"<!-- (?:run|elsewhere): (trainer|node|tests/packaging/two_hosts) -->\n```sh\n(.*?)```", re.S)
MOST_COMMANDS = 6
CURRENT = "/var/lib/p2pw/channels/policy/current"
INSTALLED = ("usr/bin/p2pw", "usr/bin/p2pwd", "usr/lib/systemd/system/p2pwd.service", "usr/lib/sysusers.d/p2pw.conf",
             "usr/lib/tmpfiles.d/p2pw.conf", "usr/share/man/man1/p2pw.1", "usr/share/man/man8/p2pwd.8",
             "usr/share/bash-completion/completions/p2pw", "usr/share/zsh/vendor-completions/_p2pw",
             "usr/share/fish/vendor_completions.d/p2pw.fish", "usr/share/doc/p2pw/examples/p2pw.toml",
             "usr/share/doc/p2pw/examples/60-p2pw.conf", "usr/share/doc/p2pw/README.md",
             "usr/share/doc/p2pw/daemon/docs/TROUBLESHOOTING.md", "usr/lib/python3/dist-packages/p2pw.py")


def say(text):
    print(text, file=sys.stderr, flush=True)


def skip(why):
    say(f"skipped: {why}")
    sys.exit(77)


def commands_of(page):
    """(host, command line) in the order of the page."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        for where, block in BLOCK.findall(file.read()):
            for line in block.splitlines():
                line = line.split("  #")[0].strip()
                if line:
                    yield where, line


def make_package(options, folder, line):
    """As README.md says; from --build without building, when it is given."""
    say(f"# {line}")
    if not options.build:
        return run("bash", "-c", line, cwd=ROOT).strip()
    run("cpack", "-G", "DEB", "--config", os.path.join(options.build, "CPackConfig.cmake"), "-B", folder, cwd=folder)
    package, = glob.glob(os.path.join(folder, "p2pw_*.deb"))
    return package


def check_installed(host):
    missing = [name for name in INSTALLED if not os.path.exists(host.path(name)) and not os.path.exists(host.path(name + ".gz"))]
    if missing:
        raise Failed(f"{host.name}: the package has not installed {missing}")
    if ":/var/lib/p2pw:" not in host.type("getent passwd p2pw")[0]:
        raise Failed(f"{host.name}: there is no user p2pw")


def check_process(host):
    """That the daemon runs as the unit says: its user, and no way to more."""
    pid = host.type("pidof p2pwd || grep -l p2pwd /proc/[0-9]*/comm | cut -d/ -f3")[0].split()[0]
    with open(host.path(f"/proc/{pid}/status"), encoding="utf-8") as file:
        status = dict(line.split(":", 1) for line in file)
    account = host.type("id -u p2pw")[0].strip()
    for key, wanted in (("Uid", {account}), ("CapBnd", {"0000000000000000"}), ("CapEff", {"0000000000000000"}), ("NoNewPrivs", {"1"})):
        if set(status[key].split()) != wanted:
            raise Failed(f"{host.name}: p2pwd has {key} {status[key].strip()}")


def digest_of(host, folder):
    """Every file's name and bytes. A link of the host is followed inside the host."""
    real = host.path(host.type(f"readlink -f {folder}")[0].strip())
    total = hashlib.sha256()
    for name in sorted(os.listdir(real)):
        if name.startswith("."):
            continue  # what the slot notes about itself
        with open(os.path.join(real, name), "rb") as file:
            total.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return total.hexdigest()


class Newcomer:
    def __init__(self, hosts, *typed):
        self.hosts, self.token, self.typed = hosts, "TOKEN", list(typed)

    def type(self, where, line):
        host = self.hosts[where]
        self.typed.append(line)
        say(f"{host.name}# {line}")
        out, err = host.type(line.replace("TOKEN", self.token))
        token = re.findall(r"\bp2pw1\S+", out)
        self.token = token[-1] if token else self.token
        shown = (out + err).strip().splitlines()
        for text in shown[-3:] if line.startswith("apt") else shown:
            say("    " + text)


def play(options, folder, hosts):
    (where, line), *commands = commands_of("README.md")
    if where in ("trainer", "node"):
        raise Failed(f"README.md no longer says how the package is made: {line}")
    package = make_package(options, folder, line)
    tar = fresh_debian(options.cache, package, say)
    unit = unit_of(os.path.join(ROOT, "daemon/packaging/p2pwd.service"))
    for name in ("trainer", "node"):
        hosts[name] = host = Host(name, os.path.join(folder, name), tar)
        shutil.copy(package, host.path("/root"))
        host.put_systemctl(unit)
    join_by_cable(list(hosts.values()), ("10.99.0.1", "10.99.0.2"))
    trainer, node = hosts["trainer"], hosts["node"]
    run(os.path.join(options.build or os.path.join(ROOT, "build"), "bin", "p2pw-series"), trainer.path("/root/checkpoints"), "--bytes", "8MiB", "--steps", "1")
    os.rename(trainer.path("/root/checkpoints/step_0001"), trainer.path("/root/checkpoints/step_0100"))
    shutil.rmtree(trainer.path("/root/checkpoints/step_0000"))
    say(f"two fresh Debian {open(node.path('/etc/debian_version'), encoding='utf-8').read().strip()} hosts, {os.path.basename(package)}")

    newcomer = Newcomer(hosts, line)
    for where, line in commands:
        newcomer.type(where, line)
        if line.startswith("p2pw seed"):
            break
    count = len(newcomer.typed)
    published, rebuilt = digest_of(trainer, "checkpoints/step_0100"), digest_of(node, CURRENT)
    if published != rebuilt or digest_of(trainer, CURRENT) != published:
        raise Failed(f"not the same checkpoint: {published} was published, the node has {rebuilt}")
    say(f"rebuilt, bit for bit (SHA-256 {rebuilt[:16]}), after {count} typed commands")
    if count > MOST_COMMANDS:
        raise Failed(f"{count} commands; {MOST_COMMANDS} were promised")

    for host in hosts.values():
        check_installed(host)
        check_process(host)
        say(f"{host.name}: p2pwd told the service manager: {host.said('READY=1')}; {host.said('WATCHDOG=1')}")
    for where, line in commands_of("daemon/docs/QUICKSTART.md"):
        if line not in newcomer.typed:
            newcomer.type(where, line)
    for where in hosts:
        newcomer.type(where, "p2pw doctor")
        newcomer.type(where, "apt purge -y p2pw")
        if not os.path.exists(hosts[where].path("/var/lib/p2pw/node.key")):
            raise Failed("purge took the keys along")


def main():
    parser = argparse.ArgumentParser(prog="tests/packaging/two_hosts", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", help="a finished build; without it README.md's command builds")
    parser.add_argument("--cache", default="/var/cache/p2pw-two-hosts", help="keeps the fresh Debian (%(default)s)")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build) if options.build else None
    if os.geteuid() != 0:
        skip("needs root")
    for tool in ("debootstrap", "cpack", "ip", "unshare", "nsenter"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    hosts = {}
    folder = tempfile.mkdtemp(prefix="p2pw-hosts-")
    try:
        play(options, folder, hosts)
        print("ok")
    except (Failed, subprocess.TimeoutExpired) as error:
        say(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for host in hosts.values():
            host.end()
        shutil.rmtree(folder, ignore_errors=True)


main()
