"""Heartbeats: which pods a node is told to run, and what becomes of what it says of them."""

import pytest

from api.store.leases import agents
from tests.api.http.yard import Json, Yard

RUN = {"command": ["python", "train.py"], "env": {"A": "1"}}


@pytest.fixture
def bound(yard: Yard) -> Yard:
    """A service with one bound job of two pods, on `c1` and `c2`."""
    yard.load()
    yard.submit(parallelism={"tp": 8, "dp": 2}, run=RUN)
    yard.cycle()
    return yard


def beat(yard: Yard, node: str, *pods: Json, session: str = "s1") -> Json:
    body = {"session": session, "boot_id": "b1", "pods": list(pods)}
    return yard.ok("POST", f"/v1/nodes/{node}/heartbeat", body)


def desired(answer: Json) -> list[Json]:
    found = answer["desired"]
    assert isinstance(found, list)
    return found


def said(yard: Yard, state: str, index: int = 0, **more: object) -> Json:
    pod = yard.items("/v1/pods")[index]
    return {"uid": pod["uid"], "attempt": pod["attempt"], "state": state} | more


def states(yard: Yard) -> list[object]:
    return [pod["state"] for pod in yard.items("/v1/pods")]


def revision(yard: Yard) -> object:
    return yard.ok("GET", "/v1/overview")["revision"]


def test_heartbeat_tells_how_to_start_the_pods_of_the_node(bound: Yard) -> None:
    answer = beat(bound, "c2")
    (pod,) = desired(answer)
    assert pod["name"] == "job-1"
    assert pod["gpus"] == list(range(8))
    assert pod["launch"] == {
        "command": ["python", "train.py"],
        "env": {"A": "1"},
        "ranks": list(range(8, 16)),
        "world_size": 16,
        "node_rank": 1,
        "nodes": 2,
        "master_addr": "c1",
        "master_port": 29500,
        "ib_hca": None,
        "checkpoint": None,
        "strict": False,
        "fence_after_s": None,
    }
    assert answer["fence_after_s"] == 280.0
    assert answer["next_s"] == 1.0
    assert desired(beat(bound, "a1")) == []


@pytest.mark.parametrize(("own_s", "fence_s"), [(100, 80.0), (1_000, 980.0), (32, 16.0), (1, 15.0)])
def test_strict_pod_has_the_time_of_its_job_less_a_margin(
    bound: Yard, own_s: int, fence_s: float
) -> None:
    """Half of it where it is short, and of `suspect_after_s` where it is shorter than that."""
    failure = {"fence": "strict", "lost_after_s": own_s}
    run = {"command": ["true"]}
    bound.submit("own", parallelism={"tp": 8}, nodes=["c3"], run=run, failure=failure)
    bound.cycle()
    (pod,) = desired(beat(bound, "c3"))
    launch = pod["launch"]
    assert isinstance(launch, dict)
    assert (launch["strict"], launch["fence_after_s"]) == (True, fence_s)


def test_launch_names_the_newest_checkpoint(bound: Yard) -> None:
    path = "/v1/namespaces/default/jobs/job/checkpoints"
    for step in (100, 200):
        bound.ok("POST", path, {"step": step, "uri": f"file:///ckpt/{step}"})
    launch = desired(beat(bound, "c1"))[0]["launch"]
    assert isinstance(launch, dict)
    assert launch["checkpoint"] == {"step": 200, "uri": "file:///ckpt/200"}


def test_launch_names_adapters_in_the_order_of_rails(yard: Yard) -> None:
    labels = "labels: {podyard.io/ib-hca: mlx5_3.mlx5_0}"
    yard.load(
        "levels: [node]\nscale_up: node\nnode_types: {t: {gpu: CARD, gpus: 2, rails: 2}}\n"
        f"nodes: [{{names: n1, type: t, {labels}}}]\n"
    )
    yard.submit(parallelism={"tp": 2})
    yard.cycle()
    launch = desired(beat(yard, "n1"))[0]["launch"]
    assert isinstance(launch, dict)
    assert launch["ib_hca"] == "=mlx5_3,mlx5_0"


def test_pod_that_the_agent_has_is_desired_without_its_launch(bound: Yard) -> None:
    (pod,) = desired(beat(bound, "c1", said(bound, "running")))
    assert pod["launch"] is None
    bound.cycle()
    assert states(bound) == ["running", "bound"]
    assert beat(bound, "c1", said(bound, "running"))["next_s"] == 10.0


def test_pod_that_has_run_is_not_started_again_by_an_agent_that_lost_it(bound: Yard) -> None:
    beat(bound, "c1", said(bound, "running"))
    bound.cycle()
    (pod,) = desired(beat(bound, "c1", session="another"))
    assert pod["launch"] is None


def test_heartbeat_without_news_makes_no_revision(bound: Yard) -> None:
    beat(bound, "c1", said(bound, "running"))
    beat(bound, "c2", said(bound, "bound", 1))
    bound.cycle()
    before = revision(bound)
    for _ in range(3):
        beat(bound, "c1", said(bound, "running"))
        beat(bound, "c2", said(bound, "bound", 1))
    assert revision(bound) == before


def test_same_news_before_the_leader_acted_is_one_report(bound: Yard) -> None:
    beat(bound, "c1", said(bound, "running"))
    before = revision(bound)
    beat(bound, "c1", said(bound, "running"))
    assert revision(bound) == before


def test_unknown_pod_is_not_desired_and_told(bound: Yard) -> None:
    stranger: Json = {"uid": "stranger", "attempt": 1, "state": "running"}
    answer = beat(bound, "a1", stranger)
    assert desired(answer) == []
    assert answer["ignored"] == [
        {"uid": "stranger", "attempt": 1, "message": "there is no such pod"}
    ]


def test_pod_of_another_node_or_attempt_is_ignored(bound: Yard) -> None:
    beat(bound, "a1")
    beat(bound, "c1")
    before = revision(bound)
    other = beat(bound, "a1", said(bound, "running"))
    assert "is on node 'c1'" in str(other["ignored"])
    early = beat(bound, "c1", said(bound, "running") | {"attempt": 2})
    assert "yet to come" in str(early["ignored"])
    assert revision(bound) == before


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 3), ("stopped", None)])
def test_pod_that_has_ended_is_left_out_before_and_after_the_leader_acts(
    bound: Yard, state: str, code: int | None
) -> None:
    more = {} if code is None else {"exit_code": code}
    word = said(bound, state, **more)
    assert desired(beat(bound, "c1", word)) == []
    assert desired(beat(bound, "c1")) == []
    bound.cycle()
    if state == "succeeded":
        assert desired(beat(bound, "c1")) == []
        assert bound.items("/v1/pods")[0]["exit_code"] == 0
    if state == "failed":
        assert bound.items("/v1/pods")[0]["exit_code"] == 3
        assert desired(beat(bound, "c2")) == []


def test_state_out_of_order_is_ignored_and_told(bound: Yard) -> None:
    beat(bound, "c1", said(bound, "succeeded", exit_code=0))
    word = said(bound, "failed", exit_code=1)
    assert "succeeded" in str(beat(bound, "c1", word)["ignored"])
    assert "succeeded" in str(beat(bound, "c1", said(bound, "running"))["ignored"])


def test_cancelled_job_is_no_longer_desired(bound: Yard) -> None:
    beat(bound, "c1", said(bound, "running"))
    bound.cycle()
    word = said(bound, "running")
    bound.ok("DELETE", "/v1/namespaces/default/jobs/job")
    bound.cycle()
    assert desired(beat(bound, "c1", word)) == []


def test_pod_given_up_before_its_agent_knew_of_it_ends_when_the_agent_says_so(
    bound: Yard,
) -> None:
    """Else the job would hold its GPUs for ever: nobody else can say what runs there."""
    beat(bound, "c1")
    beat(bound, "c2", said(bound, "running", 1))
    bound.cycle()
    bound.ok("DELETE", "/v1/namespaces/default/jobs/job")
    bound.cycle()
    run = {name: said(bound, "stopped")[name] for name in ("uid", "attempt")}
    answer = beat(bound, "c1")
    assert (answer["desired"], answer["stopping"], answer["next_s"]) == ([], [run], 1.0)
    assert beat(bound, "c2", said(bound, "running", 1))["stopping"] == []
    assert states(bound) == ["terminating", "terminating"]
    for index, node in enumerate(("c1", "c2")):
        assert beat(bound, node, said(bound, "stopped", index))["stopping"] == []
    assert beat(bound, "c1")["stopping"] == []
    bound.cycle()
    assert bound.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "cancelled"


def test_older_of_two_sessions_is_refused(bound: Yard) -> None:
    beat(bound, "c1", session="first")
    beat(bound, "c1", session="second")
    body = {"session": "first", "boot_id": "b1", "pods": []}
    found = bound.refused(409, "POST", "/v1/nodes/c1/heartbeat", body)
    assert "another agent speaks for it" in found["session"]
    beat(bound, "c1", session="second")


def test_heartbeat_of_an_unknown_node_is_not_found(any_yard: Yard) -> None:
    body = {"session": "s", "boot_id": "b", "pods": []}
    assert "nowhere" in any_yard.refused(404, "POST", "/v1/nodes/nowhere/heartbeat", body)[""]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"session": ""}, "session"),
        ({"pods": [{"uid": "u", "attempt": 0, "state": "running"}]}, "pods[0].attempt"),
        ({"pods": [{"uid": "u", "attempt": 1, "state": "lost"}]}, "pods[0].state"),
        ({"pods": [{"uid": "u", "attempt": 1, "state": "running"}] * 2}, "pods[1]"),
        ({"epoch": 1}, "epoch"),
    ],
)
def test_wrong_heartbeat_names_its_field(any_yard: Yard, change: Json, path: str) -> None:
    body = {"session": "s", "boot_id": "b", "pods": []} | change
    assert list(any_yard.refused(422, "POST", "/v1/nodes/a1/heartbeat", body)) == [path]


def test_times_heard_are_written_together(bound: Yard) -> None:
    beat(bound, "c1")
    bound.app.service.leases.flush()
    began = agents(bound.database)["c1"]
    bound.ok("POST", "/v1/test/clock", {"advance_s": 60})
    beat(bound, "c1")
    bound.app.service.leases.flush()
    assert agents(bound.database) == {"c1": began + 60}


def test_node_with_an_agent_can_be_removed(bound: Yard) -> None:
    beat(bound, "a1")
    rest = "levels: [leaf, rack, node]\nscale_up: node\nnode_types: {small: {gpu: CARD, gpus: 8}}\n"
    rest += 'nodes: [{names: "c[1-4]", type: small, rack: r3, leaf: l2}]\n'
    bound.load(rest, "?prune=true")
    assert agents(bound.database) == {}
