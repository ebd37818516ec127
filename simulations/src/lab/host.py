"""What the lab needs of the machine, and how it runs commands on it."""

import json
import os
import subprocess

UML = "/usr/bin/linux.uml"


class LabError(Exception):
    """The run cannot go on; the message says what and why."""


class Skipped(Exception):
    """This machine cannot run the lab at all; the message is the reason."""


def run(*command, input=None):
    """Runs a command, returns its output, raises LabError with what it said."""
    done = subprocess.run(command, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise LabError(f"{' '.join(command)}: {reason}")
    return done.stdout


def answer_of(command, **options):
    """(exit code, the JSON object of its last line of output, or one that says that there is none)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        return done.returncode, json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return done.returncode, {"failed": f"{os.path.basename(command[0])} ended with exit code {done.returncode}"}


def set_kernel(namespace, settings):
    """Settings under /proc/sys of a network namespace; those that this kernel does not have are left."""
    script = "; ".join(f"[ ! -e /proc/sys/{name} ] || echo '{value}' > /proc/sys/{name}" for name, value in settings.items())
    run("ip", "netns", "exec", namespace, "sh", "-c", f"set -e; {script}")


def require_emulation():
    """Raises Skipped when there is no way to emulate a WAN here."""
    if os.geteuid() != 0:
        raise Skipped("the lab needs root to make network namespaces")
    for tool in ("ip", "tc", "ethtool"):
        if not any(os.access(f"{folder}/{tool}", os.X_OK) for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin")):
            raise Skipped(f"{tool} is not installed (packages iproute2 and ethtool)")


def require_tun():
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        raise Skipped(f"/dev/net/tun: {error.strerror}; the WAN router needs it") from error
    if not os.access(UML, os.X_OK):
        raise Skipped("this kernel has no sch_netem, and user-mode-linux is not installed")


def has_netem(namespace):
    """Whether this kernel can do what the WAN router needs, found by trying it in one of our own namespaces."""
    batch = "\n".join((
        "link add probe type ifb",
        "link set probe up",
    ))
    try:
        run("ip", "-n", namespace, "-batch", "-", input=batch)
        run("tc", "-n", namespace, "qdisc", "add", "dev", "probe", "root", "netem", "delay", "1ms", "rate", "1mbit")
        run("tc", "-n", namespace, "qdisc", "add", "dev", "probe", "ingress")
        run("ip", "-n", namespace, "link", "del", "probe")
        return True
    except LabError:
        return False


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["MemAvailable"].split()[0]) * 1024

