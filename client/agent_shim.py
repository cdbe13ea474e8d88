"""What stands between an agent and the processes of one pod, so that each outlives the other.

Started as a program of its own with the pod's folder; imports nothing of Podyard. It holds a lock
on the folder for as long as it lives, starts the ranks in one process group, keeps what they write
(rotated), and leaves how they ended in `end.json`. SIGTERM makes it stop them: gracefully, then,
after the grace time, hard. It ends as soon as they have.
"""

import contextlib
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
        write_json(folder / SHIM, {"pid": os.getpid(), "started": ticks_of(os.getpid())})
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
    grace_s = float(str(plan["grace_s"]))
    hard_at: float | None = None
    told = (folder / STOP).exists()
    while ranks.processes:
        if hard_at is None and (told or ranks.first_code):
            ranks.signal(signal.SIGTERM)
            hard_at = time.monotonic() + grace_s
        left_s = None if hard_at is None else max(0.0, hard_at - time.monotonic())
        for key, _ in ranks.selector.select(left_s):
            if key.data is None:
                wakes.recv(4_096)
                told = told or (folder / STOP).exists()
            else:
                ranks.take(key)
        if hard_at is not None and time.monotonic() >= hard_at:
            ranks.signal(signal.SIGKILL)
            hard_at = time.monotonic() + 1.0
    ranks.signal(signal.SIGKILL)
    _drain(ranks)
    if told:
        return {"state": "stopped", "exit_code": None}
    if ranks.first_code:
        return {"state": "failed", "exit_code": ranks.first_code}
    return {"state": "succeeded", "exit_code": 0}


def _drain(ranks: Ranks) -> None:
    """Keep what is left in the pipes."""
    until = time.monotonic() + DRAIN_S
    while ranks.outputs and (left_s := until - time.monotonic()) > 0:
        for key, _ in ranks.selector.select(left_s):
            if isinstance(key.data, Log):
                ranks.take(key)


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
