"""What pods leave on a machine: processes that outlive their shim, and logs."""

import contextlib
import os
import signal
from pathlib import Path

from client.errors import InputError

PROC = Path("/proc")

TAIL_BYTES_MAX = 1024 * 1024


def end_traces(run: tuple[str, int], group: int, session: int) -> bool:
    """Kill what is left of a pod whose shim is gone; whether anything was there.

    Its processes are known by their process group, which is not given anew while it has members of
    the shim's session, and by their environment: what left the group still has that.
    """
    found = _members(group, session) | _marked(run)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def _members(group: int, session: int) -> set[int]:
    found = set()
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # The name is in brackets and may hold anything.
            text = path.read_text(encoding="ascii", errors="replace")
            fields = text.rpartition(")")[2].split()
            if group and fields[0] != "Z" and fields[2:4] == [str(group), str(session)]:
                found.add(int(path.parent.name))
    return found


def _marked(run: tuple[str, int]) -> set[int]:
    marks = {f"PODYARD_POD_UID={run[0]}".encode(), f"PODYARD_ATTEMPT={run[1]}".encode()}
    found = set()
    for path in PROC.glob("[0-9]*/environ"):
        with contextlib.suppress(OSError, ValueError):
            if marks <= set(path.read_bytes().split(b"\0")):
                found.add(int(path.parent.name))
    return found


def tail_of(folder: Path, name: str, size_bytes: int) -> bytes:
    """The end of a log; where it has just been rotated, the end of the one before it too.

    Raises:
        InputError: If there is no such log.
    """
    if not folder.is_dir():
        raise InputError("this attempt of the pod was not here, or its folder is gone")
    size_bytes = min(size_bytes, TAIL_BYTES_MAX)
    try:
        newest = _tail(folder / name, size_bytes)
    except OSError:
        logs = sorted(path.name for path in folder.glob("*.out"))
        processes = ", ".join(log.removesuffix(".out") for log in logs) or "none has begun"
        raise InputError(f"no such log; processes of the pod: {processes}") from None
    with contextlib.suppress(OSError):
        return _tail(folder / f"{name}.1", size_bytes - len(newest)) + newest
    return newest


def _tail(path: Path, size_bytes: int) -> bytes:
    if size_bytes <= 0:
        return b""
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - size_bytes))
        return file.read(size_bytes)
