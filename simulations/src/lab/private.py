"""A private world for one run: own mount and process namespaces around everything the lab starts.

The lab's work happens in a child that is process 1 of a new process namespace and sees its own /run and /proc. When
that child ends, for whatever reason (done, Ctrl-C, an error, SIGKILL), the kernel kills every process it started and
drops every network namespace, interface, mount and temporary file made inside. Nothing of the host is touched, so two
labs side by side do not see each other, and there is nothing to clean up by name.
"""

import ctypes
import os
import signal
import sys

_libc = ctypes.CDLL(None, use_errno=True)

_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWIPC = 0x08000000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind, flags=0, options=""):
    _check(
        _libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode()),
        f"mount {kind or source} on {target}",
    )


def die_with_parent():
    """For preexec_fn: this process gets SIGKILL when the one that started it is gone."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run(work, scratch_bytes):
    """Runs work(folder) in a private world with a memory-backed `folder`; returns its exit code.

    The caller stays outside, passes SIGINT and SIGTERM on, and waits.
    """
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC), "unshare (needs root)")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            die_with_parent()
            code = _inside(work, scratch_bytes)
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:  # the process ends here; nothing above may run twice
            print(f"lab: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A terminal sends SIGINT to both; the child takes the second one as the same request.
        signal.signal(number, lambda number, _frame: _forward(child, number))
    while True:
        try:
            _, status = os.waitpid(child, 0)
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        except InterruptedError:
            continue


def _forward(child, number):
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass


def _inside(work, scratch_bytes):
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make mounts private")
    mount("proc", "/proc", "proc")
    mount("tmpfs", "/run", "tmpfs", options=f"size={scratch_bytes},mode=0755")
    os.mkdir("/run/netns")
    os.mkdir("/run/lab")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return work("/run/lab")
