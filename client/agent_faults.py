"""Faults that a machine tells of: its kernel's log, `nvidia-smi`, and a file that others write.

Each is read a little at every turn of the agent, and none of it holds the agent up.
"""

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from client.errors import ApiError, ClientError

KMSG = Path("/dev/kmsg")
CHUNK_BYTES = 65_536
LINES_MAX = 1_000
"""Of one look; what is more comes with the next."""

WAITING_MAX = 200
"""Faults that wait for the service; of a storm the first tell enough."""

SMI_EVERY_S = 60.0
SMI_TIMEOUT_S = 30.0
SMI = (
    "nvidia-smi",
    "--query-gpu=index,pci.bus_id,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader,nounits",
)
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)(?:,\s*(.*))?")
"""As NVIDIA's driver writes it: the GPU's address on the bus, the number, and words."""

FaultBody = dict[str, object]


class Lines:
    """New lines of a file or of the kernel's log, from when this was made on.

    A file may be rotated or emptied; one that is not there yet is read from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._rest = b""
        self._open(at_end=True)

    def read(self) -> list[str]:
        """At most a thousand at a time."""
        if self._file is None or self._is_another():
            self._close()
            self._open(at_end=False)
        lines: list[str] = []
        while self._file is not None and len(lines) < LINES_MAX:
            try:
                chunk = os.read(self._file, CHUNK_BYTES)
            except BrokenPipeError:
                continue  # the kernel has written over what was next
            except OSError:
                break
            if not chunk:
                break
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            self._rest = self._rest[-CHUNK_BYTES:]
            lines += [line.decode("utf-8", errors="replace") for line in whole]
        return lines

    def _open(self, *, at_end: bool) -> None:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            if at_end:
                os.lseek(self._file, 0, os.SEEK_END)
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._rest = None, b""

    def _is_another(self) -> bool:
        """Whether the path names another file by now, or the file has become shorter."""
        if self._file is None:
            return True
        mine = os.fstat(self._file)
        if not stat.S_ISREG(mine.st_mode):
            return False
        try:
            there = self._path.stat()
        except OSError:
            return False
        is_shorter = there.st_size < os.lseek(self._file, 0, os.SEEK_CUR)
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino) or is_shorter


@dataclass(slots=True)
class Gpus:
    """What `nvidia-smi` says of the GPUs, from time to time; nothing where it is not there.

    Attributes:
        of_bus: GPU index by address on the bus.
    """

    command: tuple[str, ...] = SMI
    of_bus: dict[str, int] = field(default_factory=dict)
    _errors: dict[int, int] = field(default_factory=dict)
    _asked: subprocess.Popen[str] | None = None
    _asked_at: float = float("-inf")

    def look(self, now: float) -> list[FaultBody]:
        """Ask, or see what came in answer: GPUs that are gone, and new ECC errors."""
        if self._asked is None:
            if now - self._asked_at >= SMI_EVERY_S:
                self._ask(now)
            return []
        if self._asked.poll() is None:
            if now - self._asked_at > SMI_TIMEOUT_S:
                self._asked.kill()
            return []
        out, code = self._asked.communicate()[0], self._asked.returncode
        self._asked = None
        return self._compare(out) if code == 0 else []

    def _ask(self, now: float) -> None:
        self._asked_at = now
        try:
            self._asked = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._asked_at = float("inf")  # there is none, and there will be none

    def _compare(self, text: str) -> list[FaultBody]:
        found: list[FaultBody] = []
        buses: dict[str, int] = {}
        for line in text.splitlines():
            index, bus, errors = ([word.strip() for word in line.split(",")] + ["", ""])[:3]
            if not index.isdigit():
                continue
            gpu = int(index)
            buses[bus_of(bus)] = gpu
            count = int(errors) if errors.isdigit() else 0
            before = self._errors.get(gpu)
            if before is not None and count > before:
                message = f"{count - before} more uncorrected ECC errors"
                found.append({"code": "ecc_dbe", "gpus": [gpu], "message": message})
            self._errors[gpu] = count
        gone = sorted(self.of_bus.keys() - buses.keys()) if buses else []
        found += [
            {
                "xid": 79,
                "gpus": [self.of_bus[bus]],
                "message": f"GPU at {bus} is not there any more",
            }
            for bus in gone
        ]
        self.of_bus = buses or self.of_bus
        return found


def bus_of(text: str) -> str:
    """An address on the bus as both the driver and `nvidia-smi` could have written it.

    `00000000:3B:00.0` and `0000:3b:00` are one.
    """
    parts = text.strip().lower().partition(".")[0].split(":")
    return ":".join([parts[0][-4:], *parts[1:]])


def faults_of_kernel(lines: Iterable[str], of_bus: Mapping[str, int]) -> list[FaultBody]:
    """Xids among the lines of a kernel's log."""
    found: list[FaultBody] = []
    for line in lines:
        if (told := XID.search(line)) is None:
            continue
        bus, number, words = told.groups()
        body: FaultBody = {"xid": int(number), "message": (words or "")[:500]}
        if (gpu := of_bus.get(bus_of(bus))) is not None:
            body["gpus"] = [gpu]
        found.append(body)
    return found


def faults_of_file(lines: Iterable[str]) -> list[FaultBody]:
    """Faults as a file states them: an object in JSON in each line, as the service takes it."""
    found: list[FaultBody] = []
    for line in lines:
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except ValueError:
            body = None
        if isinstance(body, dict):
            found.append(body)
        else:
            sys.stderr.write(f"podyard-agent: not a fault in JSON: {line[:200]}\n")
    return found


class Faults:
    """All sources of one machine, and what has yet to be reported.

    Args:
        kernel: The kernel's log, or another file with its lines; None = not read.
        file: Lines in JSON that others write; None = none.
    """

    def __init__(self, kernel: Path | None, file: Path | None, gpus: Gpus | None = None) -> None:
        self._kernel = None if kernel is None else Lines(kernel)
        self._file = None if file is None else Lines(file)
        self._gpus = gpus or Gpus()
        self.waiting: list[FaultBody] = []

    def look(self) -> None:
        """Take in what is new."""
        found = self._gpus.look(time.monotonic())
        if self._kernel is not None:
            found += faults_of_kernel(self._kernel.read(), self._gpus.of_bus)
        if self._file is not None:
            found += faults_of_file(self._file.read())
        for body in found:
            if body not in self.waiting and len(self.waiting) < WAITING_MAX:
                self.waiting.append(body)

    def report(self, send: Callable[[FaultBody], object]) -> None:
        """Send what waits; what the service does not take is told of and dropped.

        Raises:
            ClientError: If the service cannot be reached; the rest waits.
        """
        while self.waiting:
            try:
                send(self.waiting[0])
            except ApiError as error:
                if error.status >= 500:
                    raise ClientError(str(error)) from None
                sys.stderr.write(f"podyard-agent: fault {self.waiting[0]} is not taken: {error}\n")
            del self.waiting[0]
