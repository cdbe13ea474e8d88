"""What stands between an agent and the processes of one pod, so that each outlives the other.

Started as a program of its own with the pod's folder; imports nothing of Podyard. It holds a lock
on the folder for as long as it lives, starts the ranks in one process group, keeps what they write
(rotated), and leaves how they ended in `end.json`. SIGTERM makes it stop them: gracefully, then,
after the grace time, hard. It ends as soon as they have, and all that they started.

It is also the guard of a strict pod: it ends the pod so long after the last heartbeat that the
service answered, by a clock that goes on while the machine sleeps, whatever the agent does.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO, TextIO

LOCK, PLAN, SHIM, RANKS, STOP, END = (
    "lock",
    "plan.json",
    "shim.json",
    "ranks.json",
    "stop",
    "end.json",
)
"""Files of a pod's folder."""

CANNOT_START = 127
"""Exit code of a pod whose command is not there, as shells have it."""

DRAIN_S = 1.0
"""How long output is waited for once all ranks have ended; a stranger may hold the pipe."""

CHUNK_BYTES = 65_536

LOOK_S = 2.0
"""Longest time between two looks at the guard's clock and at orphans. Timers of the kernel do not
count the sleep of the machine; a look after it finds what is over."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

PR_SET_CHILD_SUBREAPER = 36
"""Of `prctl(2)`: what loses its parent becomes this process's child, and cannot hide from it."""

LOCK_TRIES, LOCK_PAUSE_S = 20, 0.05


class Log:
    """A file that is moved aside when it has grown to its size; a few old ones stay."""

    def __init__(self, path: Path, size_bytes: int, kept: int) -> None:
        self._path, self._size_bytes, self._kept = path, size_bytes, kept
        self._file: BinaryIO = path.open("ab")

    def write(self, data: bytes) -> None:
        if self._file.tell() + len(data) > self._size_bytes and self._file.tell():
            self._rotate()
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._kept, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}")
            source = newer if number > 1 else self._path
            with contextlib.suppress(FileNotFoundError):
                source.replace(older)
        self._file = self._path.open("wb")


class Guard:
    """Ends a strict pod that the service may soon take for lost.

    Args:
        file: Where the agent writes when it sent the last heartbeat that was answered (seconds of
            `CLOCK_BOOTTIME`), and how long after it strict pods have to end; None = no guard.
        own_after_s: How long after it this one has to; None = as the file says.
    """

    def __init__(self, file: Path | None, own_after_s: float | None = None) -> None:
        self._file = file
        self._own_after_s = own_after_s
        self.has_struck = False

    def left_s(self) -> float | None:
        """Seconds until the pod has to end, at least 0; None without a guard."""
        if self._file is None:
            return None
        # Whatever is wrong with the file, the pod has nobody left who vouches for it.
        with contextlib.suppress(OSError, ValueError):
            acked_s, said_s = self._file.read_text(encoding="ascii").split()[:2]
            after_s = float(said_s) if self._own_after_s is None else self._own_after_s
            return max(0.0, float(acked_s) + after_s - boot_time_s())
        return 0.0


class Ranks:
    """The processes of one pod.

    Attributes:
        group: Their process group; 0 before the first.
        first_code: Of the first that did not end well; 0 until then.
    """

    def __init__(self, folder: Path, plan: dict[str, object]) -> None:
        self.folder, self.plan = folder, plan
        self.group = 0
        self.first_code = 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.started: set[int] = set()
        self._looked_at = time.monotonic()
        self.selector = selectors.DefaultSelector()
        self.outputs = 0

    def start(self) -> None:
        """Start all; a command that cannot be started counts as one that failed."""
        processes = self.plan["processes"]
        for number, of in enumerate(processes if isinstance(processes, list) else []):
            try:
                self._start(number, of)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                with (self.folder / f"{number}.err").open("ab") as log:
                    log.write(f"podyard-agent: cannot start: {error}\n".encode())
                self.first_code = self.first_code or CANNOT_START
        told = {"group": self.group, "started": ticks_of(self.group) if self.group else 0}
        write_json(self.folder / RANKS, told)

    def look_after_orphans(self) -> None:
        """Take note, now and then, of the end of what ranks have started and left behind."""
        if time.monotonic() - self._looked_at >= LOOK_S:
            self._looked_at = time.monotonic()
            self._bury_orphans()

    def _bury_orphans(self) -> None:
        for pid in children() - self.started:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def end_all(self) -> None:
        """Kill what is left, also what left the group; returns when nothing is.

        Something that the kernel cannot end holds its GPUs still, and so this pod holds on.
        """
        self.signal(signal.SIGKILL)
        while left := children() - self.started:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            self._bury_orphans()

    def _start(self, number: int, of: dict[str, object]) -> None:
        switch = self.plan.get("switch")
        user = switch if isinstance(switch, dict) else {}
        process = subprocess.Popen(
            [str(word) for word in _list(of["command"])],
            env={str(k): str(v) for k, v in _dict(of["env"]).items()},
            cwd=str(self.plan["cwd"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=self.group,
            umask=0o022,
            user=user.get("user"),
            group=user.get("group"),
            extra_groups=user.get("groups"),
        )
        self.group = self.group or process.pid
        self.processes[process.pid] = process
        self.started.add(process.pid)
        self.selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, process.pid)
        size, kept = int(str(self.plan["log_bytes"])), int(str(self.plan["log_files"]))
        for pipe, end in ((process.stdout, "out"), (process.stderr, "err")):
            if pipe is not None:
                log = Log(self.folder / f"{number}.{end}", size, kept)
                self.selector.register(pipe, selectors.EVENT_READ, log)
                self.outputs += 1

    def signal(self, number: int) -> None:
        """Send a signal to all of them and theirs; none of them has been reaped yet."""
        if self.group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)

    def take(self, key: selectors.SelectorKey) -> None:
        """Look after one end of a rank: its output, or its end."""
        if isinstance(key.data, Log):
            data = os.read(key.fd, CHUNK_BYTES)
            if data:
                key.data.write(data)
                return
            key.data.close()
            self.outputs -= 1
        elif isinstance(key.data, int):
            # Left as it is (WNOWAIT), so that its process group cannot become a stranger's.
            found = os.waitid(os.P_PID, key.data, os.WEXITED | os.WNOWAIT)
            status = 0 if found is None else found.si_status
            died = found is not None and found.si_code != os.CLD_EXITED
            self.first_code = self.first_code or (128 + status if died else status)
            del self.processes[key.data]
        self.selector.unregister(key.fileobj)


def main(folder: Path) -> int:
    """Run the pod of a folder to its end; 3 if somebody does that already."""
    with (folder / LOCK).open("w") as lock:
        if not _lock(lock):
            return 3
        if (folder / END).exists():
            return 0
        wakes, woken = socket.socketpair()
        woken.setblocking(False)
        signal.set_wakeup_fd(woken.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        told = {"pid": os.getpid(), "started": ticks_of(os.getpid()), "boot": read_boot_id()}
        write_json(folder / SHIM, told)
        adopt_orphans()
        plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        write_json(folder / END, run(folder, plan, wakes))
    return 0


def _lock(lock: TextIO) -> bool:
    """Take the folder; an agent that looks whether it is taken holds it for a moment too."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(LOCK_PAUSE_S)
    return False


def run(folder: Path, plan: dict[str, object], wakes: socket.socket) -> dict[str, object]:
    """Start the ranks and wait for them; how the pod ended."""
    ranks = Ranks(folder, plan)
    ranks.selector.register(wakes, selectors.EVENT_READ, None)
    ranks.start()
    stopping = Stopping(folder, float(str(plan["grace_s"])))
    own_s = plan.get("fence_after_s")
    guard = Guard(
        Path(str(plan["guard"])) if plan.get("guard") else None,
        own_s if isinstance(own_s, float | int) else None,
    )
    while ranks.processes:
        stopping.go_on(ranks)
        left_s = guard.left_s()
        if left_s == 0.0:
            guard.has_struck = True
            ranks.signal(signal.SIGKILL)
        waits = [LOOK_S, stopping.left_s(), left_s or None]
        for key, _ in ranks.selector.select(min(s for s in waits if s is not None)):
            if key.data is None:
                wakes.recv(4_096)
                stopping.look()
            else:
                ranks.take(key)
        ranks.look_after_orphans()
    ranks.end_all()
    _drain(ranks)
    if guard.has_struck:
        with (folder / "0.err").open("ab") as log:
            log.write(b"podyard-agent: ended by its guard: the service was not reached in time\n")
    if stopping.is_told or guard.has_struck:
        return {"state": "stopped", "exit_code": None}
    if ranks.first_code:
        return {"state": "failed", "exit_code": ranks.first_code}
    return {"state": "succeeded", "exit_code": 0}


class Stopping:
    """How far a pod is with stopping: first gracefully, then hard, and again until it is over."""

    def __init__(self, folder: Path, grace_s: float) -> None:
        self._folder, self._grace_s = folder, grace_s
        self._hard_at: float | None = None
        self.is_told = False
        self.look()

    def look(self) -> None:
        """See whether the pod is told to stop."""
        self.is_told = self.is_told or (self._folder / STOP).exists()

    def left_s(self) -> float | None:
        """Seconds until it becomes hard; None while nothing is to stop."""
        return None if self._hard_at is None else max(0.0, self._hard_at - time.monotonic())

    def go_on(self, ranks: Ranks) -> None:
        """Send the signal that is due; ranks end together."""
        now = time.monotonic()
        if self._hard_at is None:
            if self.is_told or ranks.first_code:
                ranks.signal(signal.SIGTERM)
                self._hard_at = now + self._grace_s
        elif now >= self._hard_at:
            ranks.signal(signal.SIGKILL)
            self._hard_at = now + 1.0


def _drain(ranks: Ranks) -> None:
    """Keep what is left in the pipes."""
    until = time.monotonic() + DRAIN_S
    while ranks.outputs and (left_s := until - time.monotonic()) > 0:
        for key, _ in ranks.selector.select(left_s):
            if isinstance(key.data, Log):
                ranks.take(key)


def adopt_orphans() -> None:
    """Become the parent of all that ranks leave behind, so that it can be ended with them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Process ids of this process's children, ended ones that nobody has waited for among them."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in path.read_text(encoding="ascii").split()}
    return found


def boot_time_s() -> float:
    """Seconds since the machine started, its sleep counted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read_boot_id() -> str:
    """Which life of the machine this is; "unknown" where the kernel does not tell."""
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return "unknown"


def ticks_of(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if there is none (or a zombie)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    # The name is in brackets and may hold anything.
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])


def write_json(path: Path, value: object) -> None:
    """Write a file as a whole, or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
