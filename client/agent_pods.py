"""The pods of one node: folders, shims, and what they say of themselves."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from client import agent_shim
from client.agent_launch import Desired, Launch, processes
from client.agent_shim import (
    END,
    LOCK,
    PLAN,
    RANKS,
    SHIM,
    STOP,
    read_boot_id,
    ticks_of,
    write_json,
)
from client.agent_traces import end_traces, tail_of
from client.agent_users import Refused, Users

TOLD = "told"
"""File of a pod's folder: the service knows how it ended."""

DESIRED = "pod.json"

GUARD = "answered"
"""File of the state folder: when the last heartbeat was sent that was answered, for guards."""

ENDED_KEPT = 50
"""Folders of pods that have ended, for their logs; the oldest go first."""

KILLED = 128 + signal.SIGKILL
"""Exit code of a pod whose shim was killed: nobody saw how it ended."""

Run = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Running:
    """How pods are run.

    Attributes:
        grace_s: Between SIGTERM and SIGKILL.
        log_bytes, log_files: Size of one log, and how many old ones are kept.
    """

    node: str
    users: Users
    master_addr: str | None = None
    grace_s: float = 30.0
    log_bytes: int = 16 * 1024 * 1024
    log_files: int = 3


class Pods:
    """All pods that the agent has, by uid and attempt; what is on disk is the truth.

    A pod is alive as long as its shim holds the lock of its folder: that holds whatever becomes of
    the agent, and no second shim starts the same pod.
    """

    def __init__(self, state: Path, how: Running) -> None:
        self._folder, self._how = state / "pods", how
        self._guard = state / GUARD
        self._boot_id = read_boot_id()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        self._children: dict[Run, subprocess.Popen[bytes]] = {}
        self._known: dict[Run, Desired] = {}
        self._never: set[Run] = set()
        for path in sorted(self._folder.glob(f"*/{DESIRED}")):
            if not (path.parent / TOLD).exists():
                pod: Desired = json.loads(path.read_text(encoding="utf-8"))
                self._known[pod["uid"], pod["attempt"]] = pod

    def __len__(self) -> int:
        return len(self._known)

    def states(self) -> list[dict[str, object]]:
        """Every pod as a heartbeat tells of it."""
        return [
            {"uid": run[0], "attempt": run[1], **self._state(run)} for run in sorted(self._known)
        ] + [{"uid": run[0], "attempt": run[1], "state": "stopped"} for run in sorted(self._never)]

    def answered(self, sent_s: float, fence_after_s: float) -> None:
        """Tell the guards of strict pods that the service was reached.

        Args:
            sent_s: When the heartbeat that was answered was sent, seconds of `CLOCK_BOOTTIME`.
            fence_after_s: How long after it strict pods have to end.
        """
        # Not kept over a loss of power: after that no pod is left to be guarded.
        partial = self._guard.with_name(f"{GUARD}.{os.getpid()}")
        partial.write_text(f"{sent_s!r} {fence_after_s!r}\n", encoding="ascii")
        partial.replace(self._guard)

    def tail(self, run: Run, process: int, stream: str, size_bytes: int) -> bytes:
        """The end of a log.

        Raises:
            InputError: If there is none: what it says is for who asked.
        """
        return tail_of(self.folder(run), f"{process}.{stream}", size_bytes)

    def heard(
        self,
        told: list[dict[str, object]],
        desired: list[Desired],
        stopping: Iterable[Run] = (),
    ) -> None:
        """Act on the answer to a heartbeat that told of these states.

        Args:
            stopping: What is to stop and was not told of; it is told to have stopped if it is not
                here, as it was given up before this agent knew of it.
        """
        self._forget_told(told)
        self._never = set(stopping) - self._known.keys()
        wanted = {(pod["uid"], pod["attempt"]) for pod in desired}
        for run in sorted(self._known.keys() - wanted):
            self._stop(run)
        for pod in desired:
            run = (pod["uid"], pod["attempt"])
            launch = pod["launch"]
            if run in self._known:
                if self._state(run)["state"] == "bound":
                    self._spawn(run)
            elif launch is not None and not self._is_taken(pod):
                self._start(pod, launch)
            elif (self.folder(run) / END).exists():
                # It was told of once, by a service whose database was put back to before that.
                self._known[run] = pod
        self._trim()

    def folder(self, run: Run) -> Path:
        # A name of the service is no path, whatever it holds.
        return self._folder / f"{quote(run[0], safe='')}.{run[1]}"

    def _start(self, pod: Desired, launch: Launch) -> None:
        """Write down what is to run before anything does."""
        run = (pod["uid"], pod["attempt"])
        folder = self.folder(run)
        folder.mkdir(exist_ok=True, mode=0o755)
        try:
            switch = self._how.users.switch(pod["namespace"])
            how = self._how
            home = os.environ.get("HOME", "/") if switch is None else str(switch["home"])
            started = processes(pod, launch, node=how.node, home=home, master_addr=how.master_addr)
            plan = {
                "processes": started,
                "switch": switch,
                "cwd": "/",
                "grace_s": how.grace_s,
                "log_bytes": how.log_bytes,
                "log_files": how.log_files,
                "guard": str(self._guard.absolute()) if launch["strict"] else None,
                "fence_after_s": launch.get("fence_after_s"),
            }
            write_json(folder / PLAN, plan)
        except Refused as error:
            (folder / "0.err").write_text(f"podyard-agent: {error}\n", encoding="utf-8")
            sys.stderr.write(f"podyard-agent: pod '{pod['name']}' is refused: {error}\n")
            end = {"state": "failed", "exit_code": agent_shim.CANNOT_START}
            write_json(folder / END, end)
        write_json(folder / DESIRED, {**pod, "launch": None})
        self._known[run] = pod
        if not (folder / END).exists():
            self._spawn(run)

    def _spawn(self, run: Run) -> None:
        """Start a shim; of two for one folder the second ends at once."""
        child = self._children.get(run)
        if child is not None and child.poll() is None:
            return
        self._children[run] = subprocess.Popen(
            [sys.executable, "-I", str(Path(agent_shim.__file__)), str(self.folder(run))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # The agent's token is not for pods, which may be able to look.
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )

    def _state(self, run: Run) -> dict[str, object]:
        folder = self.folder(run)
        if (child := self._children.get(run)) is not None:
            child.poll()  # else it stays a zombie
        if found := _read(folder / END):
            return found
        if self._is_alive(run):
            word = "terminating" if (folder / STOP).exists() else "running"
            return {"state": word if (folder / SHIM).exists() else "bound"}
        if not (folder / SHIM).exists():
            return {"state": "bound"}
        # The shim may have ended between the two looks.
        return _read(folder / END) or self._bury(run)

    def _bury(self, run: Run) -> dict[str, object]:
        """A pod whose shim was killed: end what is left of it, and say so once nothing is."""
        folder = self.folder(run)
        shim = _read(folder / SHIM)
        is_of_this_boot = shim.get("boot", self._boot_id) == self._boot_id
        if is_of_this_boot:
            group = int(str(_read(folder / RANKS).get("group", 0)))
            if end_traces(run, group, int(str(shim.get("pid", 0)))):
                return {"state": "terminating"}
        end: dict[str, object] = {"state": "failed", "exit_code": KILLED}
        if (folder / STOP).exists() or not is_of_this_boot:
            # That the machine was started anew is no fault of the pod.
            end = {"state": "stopped", "exit_code": None}
        write_json(folder / END, end)
        return end

    def _is_alive(self, run: Run) -> bool:
        """Whether a shim holds the folder's lock."""
        try:
            with (self.folder(run) / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def _stop(self, run: Run) -> None:
        """Tell a pod to stop; one that has not begun never will."""
        folder = self.folder(run)
        state = self._state(run)["state"]
        child = self._children.get(run)
        is_starting = child is not None and child.poll() is None
        if state == "bound" and not is_starting and not self._is_alive(run):
            write_json(folder / END, {"state": "stopped", "exit_code": None})
        elif state in {"bound", "running"}:
            (folder / STOP).touch()
            shim = _read(folder / SHIM)
            pid = int(str(shim.get("pid", 0)))
            if pid and ticks_of(pid) == shim["started"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def _is_taken(self, pod: Desired) -> bool:
        """Whether its GPUs, or the pod itself, are still in an earlier pod's hands."""
        return any(
            (other["uid"] == pod["uid"] or set(other["gpus"]) & set(pod["gpus"]))
            and self._state(run)["state"] in {"bound", "running", "terminating"}
            for run, other in self._known.items()
        )

    def _forget_told(self, told: list[dict[str, object]]) -> None:
        for word in told:
            run = (str(word["uid"]), int(str(word["attempt"])))
            if word["state"] in {"stopped", "succeeded", "failed"} and run in self._known:
                (self.folder(run) / TOLD).touch()
                (self.folder(run) / PLAN).unlink(missing_ok=True)
                del self._known[run]
                if (child := self._children.pop(run, None)) is not None:
                    child.wait()

    def _trim(self) -> None:
        """Let go of the oldest folders of pods that have ended and were told of."""
        ended = sorted(self._folder.glob(f"*/{TOLD}"), key=lambda path: path.stat().st_mtime)
        for path in ended[:-ENDED_KEPT]:
            shutil.rmtree(path.parent, ignore_errors=True)


def _read(path: Path) -> dict[str, object]:
    """A file that is written as a whole; empty if it is not there."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}
