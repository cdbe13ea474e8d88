"""An agent's pods as real processes, without a service."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.agent_launch import processes
from client.agent_loop import Agent, AgentClient
from client.agent_pods import KILLED, Pods, Running
from client.agent_shim import Log, ticks_of
from client.agent_users import Refused, Users, read_users
from client.errors import InputError
from client.transport import Retry
from tests.client.host import RUN, Host, a_host, make_pod
from tests.client.waiting import until

STUBBORN = "import signal, time\nsignal.signal(15, 1)\nprint('up', flush=True)\ntime.sleep(60)"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A node whose pods all stop at the end."""
    with a_host(tmp_path) as made:
        yield made


def test_pod_runs_to_its_end_and_keeps_what_it_wrote(host: Host) -> None:
    host.run(make_pod("sh", "-c", "echo out $RANK; echo err $LOCAL_RANK >&2", gpus=2))
    until(lambda: host.word() == ("succeeded", 0))
    assert (host.log("0.out"), host.log("1.out")) == ("out 4\n", "out 5\n")
    assert (host.log("0.err"), host.log("1.err")) == ("err 0\n", "err 1\n")


def test_exit_code_of_the_first_rank_that_fails_is_told_and_ends_the_others(host: Host) -> None:
    script = "test $LOCAL_RANK = 0 && exit 7; sleep 60"
    host.run(make_pod("sh", "-c", script, gpus=2))
    until(lambda: host.word() == ("failed", 7))


def test_rank_that_dies_by_a_signal_is_told_as_shells_do(host: Host) -> None:
    host.run(make_pod("sh", "-c", "kill -SEGV $$"))
    until(lambda: host.word() == ("failed", 128 + signal.SIGSEGV))


def test_command_that_is_not_there_fails_the_pod(host: Host) -> None:
    host.run(make_pod("/no/such/program"))
    until(lambda: host.word() == ("failed", 127))
    assert "cannot start" in host.log("0.err")


def test_ended_pod_is_told_once(host: Host) -> None:
    host.run(make_pod("true"))
    until(lambda: host.word() == ("succeeded", 0))
    host.pods.heard(host.pods.states(), [])
    assert host.pods.states() == []
    host.again()
    assert host.pods.states() == []
    assert host.log("0.err") == ""


def test_end_is_told_again_to_a_service_that_knows_nothing_of_it_any_more(host: Host) -> None:
    """Its database was put back from a copy made while the pod ran."""
    pod = make_pod("true")
    host.run(pod)
    until(lambda: host.word() == ("succeeded", 0))
    host.pods.heard(host.pods.states(), [])
    assert host.pods.states() == []
    host.pods.heard([], [{**pod, "launch": None}])
    assert host.word() == ("succeeded", 0)
    host.pods.heard(host.pods.states(), [])
    assert host.pods.states() == []


def test_pod_that_is_not_desired_stops_gracefully(host: Host) -> None:
    host.run(
        make_pod("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    )
    until(lambda: host.log() == "up\n")
    host.pods.heard(host.pods.states(), [])
    until(lambda: host.state() == "stopped")
    assert host.log() == "up\nbye\n"


def test_pod_that_never_came_is_told_to_have_stopped_until_that_was_heard(host: Host) -> None:
    host.run(make_pod("sleep", "60"))
    (told,) = host.pods.states()
    known = (str(told["uid"]), int(str(told["attempt"])))
    host.pods.heard([told], [make_pod("sleep", "60")], [("never", 2), known])
    never = {"uid": "never", "attempt": 2, "state": "stopped"}
    assert [word for word in host.pods.states() if word["uid"] == "never"] == [never]
    assert len(host.pods.states()) == 2
    host.pods.heard(host.pods.states(), [make_pod("sleep", "60")], [])
    assert len(host.pods.states()) == 1


def test_pod_that_does_not_listen_is_stopped_hard(host: Host) -> None:
    host.run(make_pod(sys.executable, "-c", STUBBORN))
    until(lambda: host.log() == "up\n")
    group = host.group()
    host.pods.heard(host.pods.states(), [])
    assert host.state() in {"terminating", "stopped"}
    until(lambda: host.state() == "stopped")
    assert ticks_of(group) == 0


def test_what_a_rank_has_started_ends_with_it(host: Host) -> None:
    host.run(make_pod("sh", "-c", "sleep 60 & echo $!; exit 0"))
    until(lambda: host.word() == ("succeeded", 0))
    assert ticks_of(int(host.log())) == 0


def test_next_agent_finds_the_pod_and_does_not_start_it_again(host: Host) -> None:
    pod = make_pod("sh", "-c", "echo up; exec sleep 60")
    host.run(pod)
    until(lambda: host.log() == "up\n")
    shim = host.shim()
    host.again()
    assert host.state() == "running"
    pod["launch"] = None
    host.pods.heard(host.pods.states(), [pod])
    assert (host.state(), host.shim(), host.log()) == ("running", shim, "up\n")


def test_end_that_no_agent_saw_is_told_by_the_next(host: Host) -> None:
    host.run(make_pod("sh", "-c", "exit 9"))
    until(lambda: (host.pods.folder(RUN) / "end.json").exists())
    host.again()
    assert host.word() == ("failed", 9)


def test_pod_whose_shim_was_killed_is_ended_and_told_as_failed(host: Host) -> None:
    host.run(make_pod("sleep", "60"))
    until(lambda: host.state() == "running")
    group = host.group()
    os.kill(host.shim(), signal.SIGKILL)
    until(lambda: host.word() == ("failed", KILLED))
    until(lambda: ticks_of(group) == 0)


def test_gpus_of_a_pod_that_still_stops_are_given_to_no_other(host: Host) -> None:
    host.run(make_pod(sys.executable, "-c", STUBBORN))
    until(lambda: host.log() == "up\n")
    later = make_pod("true", uid="v--0")
    host.pods.heard(host.pods.states(), [later])
    assert [found["uid"] for found in host.pods.states()] == ["u--0"]
    until(lambda: host.state() == "stopped")
    host.pods.heard(host.pods.states(), [later])
    assert [found["uid"] for found in host.pods.states()] == ["v--0"]


def test_agent_that_reaches_no_service_stops_nothing(host: Host) -> None:
    host.run(make_pod("sleep", "60"))
    until(lambda: host.state() == "running")
    with AgentClient("http://127.0.0.1:9", 1.0, retry=Retry(tries=1)) as client:
        Agent(client, host.pods, "n3", 0.01)._turn(host.pods.states())
    assert host.state() == "running"


def test_environment_says_what_a_rank_has_to_know() -> None:
    pod = make_pod("true", gpus=2)
    launch = pod["launch"]
    assert launch is not None
    made = processes(pod, launch, node="n3", home="/h", master_addr=None)
    env = made[1]["env"]
    assert isinstance(env, dict)
    assert {k: v for k, v in env.items() if k not in {"PATH", "LANG", "LC_ALL", "TZ"}} == {
        "HOME": "/h",
        "COLOUR": "blue",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "2",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "29503",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_IB_HCA": "=mlx5_3,mlx5_0",
        "PODYARD_NAMESPACE": "research",
        "PODYARD_JOB": "train",
        "PODYARD_POD": "train-2",
        "PODYARD_POD_UID": "u--0",
        "PODYARD_ROLE": "rank",
        "PODYARD_INDEX": "2",
        "PODYARD_ATTEMPT": "1",
        "PODYARD_NODE": "n3",
        "PODYARD_CHECKPOINT_STEP": "200",
        "PODYARD_CHECKPOINT_URI": "file:///ckpt/200",
    }


def test_job_may_ask_for_one_process_for_each_pod() -> None:
    pod = make_pod("torchrun", "train.py", gpus=2)
    launch = pod["launch"]
    assert launch is not None
    launch["env"] = {"PODYARD_PROCESSES": "pod"}
    (made,) = processes(pod, launch, node="n3", home="/h", master_addr="127.0.0.1")
    env = made["env"]
    assert isinstance(env, dict)
    assert env["PET_NPROC_PER_NODE"] == "2"
    assert env["PET_MASTER_ADDR"] == "127.0.0.1"
    assert "RANK" not in env


def test_log_is_rotated_and_a_few_old_ones_stay(tmp_path: Path) -> None:
    log = Log(tmp_path / "0.out", 10, 2)
    for word in (b"first---", b"second--", b"third---", b"fourth--"):
        log.write(word)
    log.close()
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {"0.out": b"fourth--", "0.out.1": b"third---", "0.out.2": b"second--"}


def test_pods_never_run_as_root_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Refused, match="--user research=NAME"):
        Users({}).switch("research")
    with pytest.raises(Refused, match="which is root"):
        Users({"*": "root"}).switch("research")
    with pytest.raises(Refused, match="does not exist"):
        Users({"research": "nobody-of-that-name"}).switch("research")
    found = Users({"research": "nobody"}).switch("research")
    assert found is not None
    assert found["user"] != 0
    assert Users({}, allow_root=True).switch("research") is None


def test_agent_that_is_not_root_becomes_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert Users({}).switch("research") is None
    with pytest.raises(Refused, match="cannot become 'nobody'"):
        Users({"*": "nobody"}).switch("research")


def test_refused_pod_fails_with_the_reason_in_its_log(tmp_path: Path) -> None:
    how = Running("n3", Users({"*": "nobody-of-that-name"}))
    pods = Pods(tmp_path, how)
    pods.heard([], [make_pod("true")])
    (found,) = pods.states()
    assert (found["state"], found["exit_code"]) == ("failed", 127)
    assert "does not exist" in (pods.folder(RUN) / "0.err").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_pod_runs_as_the_user_of_its_namespace(host: Host) -> None:
    host.how = Running("n3", Users({"research": "nobody"}), grace_s=0.3)
    host.again()
    host.run(make_pod("sh", "-c", "id -un; id -u; echo $HOME"))
    until(lambda: host.word() == ("succeeded", 0))
    assert host.log().splitlines()[0] == "nobody"
    assert host.log().splitlines()[1] != "0"


@pytest.mark.parametrize("word", ["alice", "=alice", "research="])
def test_user_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="NAMESPACE=USER"):
        read_users([word], allow_root=False)
