#!/usr/bin/python3 -ESB
"""Process 1 of the user-mode-linux WAN router.

Loads the kernel modules for traffic control, then answers requests from the lab, one JSON object a line, on its second
console: {"run": [[argument, ...], ...]} runs commands and answers with their output.
"""

import ctypes
import json
import os
import subprocess
import sys
import tty

MODULES = (
    "drivers/net/ifb.ko",
    "net/sched/sch_netem.ko",
    "net/sched/sch_ingress.ko",
    "net/sched/cls_u32.ko",
    "net/sched/act_mirred.ko",
)


def mount(source, target, kind):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, target, kind, 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def load(path, parameters=b""):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY)
    if libc.syscall(313, fd, parameters, 0) != 0:  # finit_module on x86-64
        raise OSError(ctypes.get_errno(), f"load {path}")
    os.close(fd)


def answer(request):
    outputs = []
    for command in request["run"]:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return {"error": f"{' '.join(command)}: {done.stderr.strip() or done.returncode}"}
        outputs.append(done.stdout)
    return {"outputs": outputs}


def serve():
    fd = os.open("/dev/tty1", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(fd)
    reader = os.fdopen(os.dup(fd), "r", encoding="utf-8", newline="\n")
    writer = os.fdopen(fd, "w", encoding="utf-8", newline="\n")

    def say(value):
        writer.write(json.dumps(value) + "\n")
        writer.flush()

    say({"ready": True})
    for line in reader:
        say(answer(json.loads(line)))


def main():
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    mount(b"proc", b"/proc", b"proc")
    mount(b"sysfs", b"/sys", b"sysfs")
    folder = f"/usr/lib/uml/modules/{os.uname().release}/kernel/"
    for module in MODULES:
        load(folder + module, b"numifbs=0" if "ifb" in module else b"")
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")
    serve()


try:
    main()
except BaseException as error:
    print(f"router: {error}", file=sys.stderr)
finally:
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("o")
