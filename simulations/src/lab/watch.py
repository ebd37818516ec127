"""Watching from outside: when a folder is first read, what processes use, when bytes reach a machine."""

import ctypes
import os
import threading
import time

_IN_OPEN = 0x20
_IN_ACCESS = 0x01
_TICKS = os.sysconf("SC_CLK_TCK")


class FirstRead:
    """The wall clock when anybody first opened something in a folder, by inotify."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        self.at = None
        if self._fd < 0 or libc.inotify_add_watch(self._fd, folder.encode(), _IN_OPEN | _IN_ACCESS) < 0:
            raise OSError(ctypes.get_errno(), f"inotify on {folder}")
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self):
        os.read(self._fd, 4096)
        self.at = time.time()
        os.close(self._fd)


def usage(pid):
    """(anonymous resident bytes, CPU seconds) of a live process, or None."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            times = file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    anon = int(fields.get("RssAnon", "0 kB").split()[0]) * 1024
    return anon, (int(times[11]) + int(times[12])) / _TICKS


def usage_with_children(pid):
    """The same for a daemon and the process that runs its swarm; CPU seconds of those that are gone are counted, too."""
    own = usage(pid)
    if own is None:
        return None
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            times = file.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return own
    anon, seconds = own[0], own[1] + (int(times[13]) + int(times[14])) / _TICKS
    for child in children:
        now = usage(child)
        if now:
            anon += now[0]
            seconds += now[1]
    return anon, seconds


def busy_seconds():
    """CPU seconds that ordinary processes of the whole machine have used, and (wall seconds x cores)."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system = (int(word) for word in file.readline().split()[1:4])
    return (user + nice + system) / _TICKS, time.monotonic() * os.cpu_count()


class Usage:
    """Peak of anonymous memory and CPU seconds since begin(), of named processes that may come and go."""

    PERIOD_SECONDS = 0.1

    def __init__(self):
        self._lock = threading.Lock()
        self._pids = {}     # name -> pid
        self._base = {}     # name -> CPU seconds at begin() of the present process
        self._last = {}     # name -> CPU seconds now of the present process
        self._before = {}   # name -> CPU seconds of earlier processes
        self.peak = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def watch(self, name, pid):
        with self._lock:
            self._before[name] = self._before.get(name, 0.0) + self._last.get(name, 0.0) - self._base.get(name, 0.0)
            self._pids[name] = pid
            self._base[name] = self._last[name] = 0.0

    def begin(self):
        """From here on it counts."""
        with self._lock:
            for name, pid in self._pids.items():
                now = usage_with_children(pid)
                self._base[name] = self._last[name] = now[1] if now else 0.0
                self._before[name] = 0.0
                self.peak[name] = now[0] if now else 0

    def cpu_seconds(self):
        self._sample()
        with self._lock:
            return {name: self._before.get(name, 0.0) + self._last[name] - self._base[name] for name in self._pids}

    def _sample(self):
        with self._lock:
            for name, pid in self._pids.items():
                now = usage_with_children(pid)
                if now:
                    self.peak[name] = max(self.peak.get(name, 0), now[0])
                    self._last[name] = now[1]

    def _loop(self):
        while not self._stop.wait(self.PERIOD_SECONDS):
            self._sample()

    def close(self):
        self._stop.set()
        self._thread.join()


class Reading:
    """What a process has read from files, over time: [(wall clock, bytes)]."""

    PERIOD_SECONDS = 0.005

    def __init__(self, pid):
        self.seen = []
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self):
        while not self._stop.wait(self.PERIOD_SECONDS):
            try:
                with open(f"/proc/{self._pid}/io", encoding="ascii") as file:
                    self.seen.append((time.time(), int(file.readline().split()[1])))
            except (FileNotFoundError, ProcessLookupError, PermissionError, IndexError):
                return

    def by(self, at):
        """Bytes read by then."""
        return max((done for when, done in self.seen if when <= at), default=0)

    def close(self):
        self._stop.set()
        self._thread.join()


class LastBulk:
    """When a bridge last forwarded bulk to each of its ports: {port: wall clock}, to about 10 ms."""

    PERIOD_SECONDS = 0.01
    BULK = 16 << 10  # in one period; heartbeats and acknowledgements are less

    def __init__(self, namespace):
        self.at = {}
        self._stop = threading.Event()
        self._namespace = namespace
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self):
        enter_namespace(self._namespace)
        last = {}
        while not self._stop.wait(self.PERIOD_SECONDS):
            now = time.time()
            with open("/proc/thread-self/net/dev", encoding="ascii") as file:
                lines = file.readlines()[2:]
            for line in lines:
                port, counters = line.split(":", 1)
                sent = int(counters.split()[8])
                if sent - last.get(port, sent) >= self.BULK:
                    self.at[port.strip()] = now
                last[port] = sent

    def close(self):
        self._stop.set()
        self._thread.join()


def enter_namespace(name):
    """Moves the calling thread, and it alone, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), f"enter namespace {name}")
    finally:
        os.close(fd)
