"""What hooks are asked and told when nodes are drained or lost, with real receivers."""

from collections.abc import Iterator

import pytest

from tests.api.hooks.receiver import Receiver, Reply, saved
from tests.api.http.yard import Json, Yard
from tests.api.loop.hooked import GRACE_S, LOW, Hooked

URI = "s3://bucket/run"
FIVE = """\
cluster: test
levels: [rack, node]
scale_up: node
node_types:
  small: {gpu: CARD, gpus: 8, rails: 8, power_kw: 10}
nodes:
  - {names: "a[1-5]", type: small, rack: r1}
"""


@pytest.fixture
def hooked(yard: Yard) -> Iterator[Hooked]:
    """A gang with a hook on a1 and a2; three nodes are free."""
    with Receiver() as receiver:
        found = Hooked(yard, receiver)
        yard.load(FIVE)
        found.run_low(uri=URI, scope="pod")
        yield found


def nodes(hooked: Hooked) -> dict[object, object]:
    """Node of each live pod."""
    pods = hooked.yard.items("/v1/pods?job=low")
    return {pod["name"]: pod["node"] for pod in pods if pod["state"] in {"bound", "running"}}


def play_nodes(hooked: Hooked) -> None:
    """Do what nodes do: pods stop when they are told to, and start."""
    for _ in range(3):
        for pod in hooked.yard.items("/v1/pods?job=low"):
            state = {"terminating": "stopped", "bound": "running"}.get(str(pod["state"]))
            if state is not None:
                path = f"/v1/namespaces/default/pods/{pod['name']}/status"
                hooked.yard.ok("POST", path, {"attempt": pod["attempt"], "state": state})
        hooked.yard.cycle()


def told(hooked: Hooked, kind: str) -> list[Json]:
    hooked.outbox.drain()
    return [got.data for got in hooked.receiver.got if got.kind == kind]


def test_hook_is_asked_before_its_job_leaves_a_drained_node(hooked: Hooked) -> None:
    hooked.yard.ok("POST", "/v1/nodes/a1/drain", {"reason": "fan 3"})
    hooked.yard.cycle()
    assert nodes(hooked) == {"low-0": "a1", "low-1": "a2"}
    assert hooked.low()["state"] == "running"
    evicting = hooked.low()["evicting"]
    assert isinstance(evicting, dict)
    assert (evicting["step"], evicting["then"]) == ("asked", "running")
    hooked.receiver.answer = lambda got: (
        saved(7, f"{URI}/7") if got.kind == "checkpoint.requested" else Reply()
    )
    hooked.step()
    (asked,) = told(hooked, "checkpoint.requested")
    assert "a1" in str(asked["why"])
    play_nodes(hooked)
    assert hooked.low()["state"] == "running"
    where = nodes(hooked)
    assert where["low-0"] in {"a3", "a4", "a5"}
    assert where["low-1"] == "a2"
    assert told(hooked, "job.evicting")
    again = told(hooked, "job.restarting")[-1]
    assert again["checkpoint"] == {"step": 7, "uri": f"{URI}/7", "tier": None}
    assert again["changed_ranks"] == list(range(8))
    node = hooked.yard.ok("GET", "/v1/nodes/a1")
    assert isinstance(node["draining"], dict)
    assert node["draining"]["done"] is True


def test_hook_that_never_answers_has_its_grace_before_its_job_leaves_a_drained_node(
    hooked: Hooked,
) -> None:
    hooked.receiver.answer = lambda got: hooked.receiver.hang()
    hooked.never_answered()
    hooked.yard.ok("POST", "/v1/nodes/a1/drain")
    hooked.yard.cycle()
    hooked.step()
    hooked.step(GRACE_S - 1)
    play_nodes(hooked)
    assert nodes(hooked) == {"low-0": "a1", "low-1": "a2"}
    hooked.step(1)
    play_nodes(hooked)
    assert nodes(hooked)["low-0"] != "a1"


def test_drain_that_is_withdrawn_before_anybody_was_asked_leaves_no_trace(hooked: Hooked) -> None:
    hooked.yard.ok("POST", "/v1/nodes/a1/drain")
    hooked.yard.cycle()
    hooked.yard.ok("POST", "/v1/nodes/a1/undrain")
    hooked.yard.cycle()
    assert told(hooked, "checkpoint.requested") == []
    assert hooked.low()["evicting"] is None
    assert nodes(hooked) == {"low-0": "a1", "low-1": "a2"}
    pods = hooked.yard.items("/v1/pods?job=low")
    assert {pod["attempt"] for pod in pods} == {1}


def test_drain_with_no_time_asks_nobody(hooked: Hooked) -> None:
    hooked.yard.ok("POST", "/v1/nodes/a1/drain", {"deadline_s": 0})
    hooked.yard.cycle()
    play_nodes(hooked)
    assert told(hooked, "checkpoint.requested") == []
    assert nodes(hooked)["low-0"] in {"a3", "a4", "a5"}
    assert told(hooked, "job.restarting")[-1]["checkpoint"] is None


def test_restart_is_told_of_the_newest_checkpoint_of_which_a_copy_is_left(hooked: Hooked) -> None:
    """The newest had its only copy on the node that is lost."""
    for step, kept_on in ((3, []), (4, ["a1", "a2"]), (5, ["a1"])):
        body = {"step": step, "uri": f"{URI}/{step}", "nodes": kept_on, "tier": "local"}
        hooked.yard.ok("POST", f"{LOW}/checkpoints", body)
    hooked.yard.ok("POST", "/v1/nodes/a1/faults", {"code": "node_lost"})
    hooked.yard.cycle()
    play_nodes(hooked)
    (again,) = told(hooked, "job.restarting")
    assert again["checkpoint"] == {"step": 4, "uri": f"{URI}/4", "tier": "local"}
    assert again["changed_ranks"] == list(range(8))
    known = hooked.yard.items(f"{LOW}/checkpoints")
    assert [(c["step"], c["exists"]) for c in known] == [(5, False), (4, True), (3, True)]
    assert told(hooked, "checkpoint.requested") == []


def test_restart_of_all_ranks_tells_of_those_that_are_elsewhere(hooked: Hooked) -> None:
    hooked.yard.ok("POST", "/v1/nodes/a2/faults", {"xid": 31, "gpus": [0]})
    hooked.yard.cycle()
    play_nodes(hooked)
    (again,) = told(hooked, "job.restarting")
    assert again["changed_ranks"] == []
    assert nodes(hooked) == {"low-0": "a1", "low-1": "a2"}
