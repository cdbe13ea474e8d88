"""Guards of strict pods, and what pods leave behind; real processes, without a service."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.agent_launch import Desired
from client.agent_shim import BOOT_ID, Guard, boot_time_s, ticks_of, write_json
from client.agent_traces import tail_of
from client.errors import InputError
from tests.client.host import RUN, Host, a_host, make_pod
from tests.client.waiting import until

ESCAPES = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        print(os.getpid(), flush=True)\n"
    "        time.sleep(120)\n"
    "    os._exit(0)\n"
    "time.sleep({stays})\n"
)
"""Leaves a process behind in a session of its own, as daemons do."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A node whose pods all stop at the end."""
    with a_host(tmp_path) as made:
        yield made


def make_strict(*command: str) -> Desired:
    pod = make_pod(*command)
    assert pod["launch"] is not None
    pod["launch"]["strict"] = True
    return pod


def test_strict_pod_ends_in_time_when_no_heartbeat_is_answered(host: Host) -> None:
    host.pods.answered(boot_time_s(), 1.0)
    host.run(
        make_strict(
            sys.executable, "-c", "import signal, time\nsignal.signal(15, 1)\ntime.sleep(60)"
        )
    )
    until(lambda: host.state() == "stopped")
    assert "ended by its guard" in host.log("0.err")
    assert ticks_of(host.group()) == 0


def test_strict_pod_runs_on_as_long_as_heartbeats_are_answered(host: Host) -> None:
    host.pods.answered(boot_time_s(), 60.0)
    host.run(make_strict("sleep", "60"))
    until(lambda: host.state() == "running")
    # The time that counts is when it was sent.
    host.pods.answered(boot_time_s() - 59.5, 60.0)
    assert host.state() == "running"


def test_strict_pod_with_a_time_of_its_own_goes_by_that(host: Host) -> None:
    host.pods.answered(boot_time_s(), 1_000.0)
    pod = make_strict("sleep", "60")
    assert pod["launch"] is not None
    pod["launch"]["fence_after_s"] = 0.5
    host.run(pod)
    until(lambda: host.state() == "stopped")
    assert "ended by its guard" in host.log("0.err")


def test_guard_goes_by_the_last_answer(tmp_path: Path) -> None:
    file = tmp_path / "answered"
    guard = Guard(file)
    file.write_text(f"{boot_time_s()!r} 100.0\n")
    left = guard.left_s()
    assert left is not None
    assert 99 < left <= 100
    file.write_text(f"{boot_time_s() - 50!r} 40.0\n")
    assert guard.left_s() == 0.0
    own = Guard(file, 60.0).left_s()
    assert own is not None
    assert 9 < own <= 10


@pytest.mark.parametrize("text", ["", "soon later", "12.5"])
def test_guard_that_cannot_read_the_last_answer_ends_the_pod(tmp_path: Path, text: str) -> None:
    file = tmp_path / "answered"
    assert Guard(file).left_s() == 0.0
    file.write_text(text)
    assert Guard(file).left_s() == 0.0


def test_pod_that_is_not_strict_has_no_guard(host: Host) -> None:
    assert Guard(None).left_s() is None
    host.pods.answered(boot_time_s() - 1_000, 1.0)
    host.run(make_pod("sleep", "60"))
    until(lambda: host.state() == "running")


def test_process_that_left_its_group_ends_with_its_pod(host: Host) -> None:
    host.run(make_pod(sys.executable, "-c", ESCAPES.format(stays=0.3)))
    until(lambda: host.word() == ("succeeded", 0))
    assert ticks_of(int(host.log())) == 0


def test_process_that_left_its_group_ends_before_a_pod_whose_shim_was_killed_has_ended(
    host: Host,
) -> None:
    host.run(make_pod(sys.executable, "-c", ESCAPES.format(stays=60)))
    until(lambda: host.log() != "")
    escaped = int(host.log())
    os.kill(host.shim(), signal.SIGKILL)
    until(lambda: host.state() == "failed")
    assert ticks_of(escaped) == 0


def test_pod_of_an_earlier_life_of_the_machine_has_stopped(host: Host) -> None:
    host.run(make_pod("true"))
    until(lambda: host.word() == ("succeeded", 0))
    folder = host.pods.folder(RUN)
    (folder / "end.json").unlink()
    write_json(folder / "shim.json", {"pid": 1, "started": 1, "boot": "another"})
    assert BOOT_ID.read_text() != "another"
    assert host.word() == ("stopped", None)


def test_attempt_that_comes_next_waits_until_the_one_before_has_ended(host: Host) -> None:
    host.run(
        make_pod("sh", "-c", "trap 'sleep 0.2; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    )
    until(lambda: host.log() == "up\n")
    second = make_pod("sleep", "60", attempt=2)
    host.pods.heard(host.pods.states(), [second])
    assert [found["attempt"] for found in host.pods.states()] == [1]
    until(lambda: host.state() == "stopped")
    host.pods.heard(host.pods.states(), [second])
    assert [found["attempt"] for found in host.pods.states()] == [2]


def test_tail_is_the_end_of_the_log_and_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "0.out.1").write_bytes(b"older")
    (tmp_path / "0.out").write_bytes(b"newer")
    assert tail_of(tmp_path, "0.out", 3) == b"wer"
    assert tail_of(tmp_path, "0.out", 7) == b"ernewer"
    assert tail_of(tmp_path, "0.out", 100) == b"oldernewer"
    with pytest.raises(InputError, match=r"processes of the pod: 0$"):
        tail_of(tmp_path, "3.out", 10)
    with pytest.raises(InputError, match="its folder is gone"):
        tail_of(tmp_path / "nowhere", "0.out", 10)
