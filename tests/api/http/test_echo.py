"""Heartbeats that say what the last one said are answered from memory, as long as that is right."""

import pytest
import sqlalchemy as sa

from api.store.leases import agents
from api.store.tables import leader
from tests.api.http.yard import Json, Yard

PATH = "/v1/nodes/c1/heartbeat"


class Reads:
    """Counts the statements that a service's database is sent."""

    def __init__(self, yard: Yard) -> None:
        self.engine = yard.database.engine
        self.count = 0

    def note(self, *_: object) -> None:
        self.count += 1

    def __enter__(self) -> "Reads":
        sa.event.listen(self.engine, "before_cursor_execute", self.note)
        return self

    def __exit__(self, *_: object) -> None:
        sa.event.remove(self.engine, "before_cursor_execute", self.note)


@pytest.fixture
def body(yard: Yard) -> Json:
    """What the agent of `c1` says, on which the only pod of a job runs; it has said it before."""
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["c1"])
    yard.cycle()
    (pod,) = yard.items("/v1/pods")
    word = {"uid": pod["uid"], "attempt": 1, "state": "running"}
    said: Json = {"session": "s1", "boot_id": "b1", "pods": [word]}
    yard.ok("POST", PATH, said)
    yard.cycle()
    yard.ok("POST", PATH, said)
    return said


def test_same_words_are_answered_the_same_and_renew_the_lease(yard: Yard, body: Json) -> None:
    first = yard.ok("POST", PATH, body)
    yard.ok("POST", "/v1/test/clock", {"advance_s": 20})
    with Reads(yard) as reads:
        second = yard.ok("POST", PATH, body)
    assert second == first
    # At most it is looked whether another process has written.
    assert reads.count <= 3
    yard.app.service.leases.flush()
    assert agents(yard.database)["c1"] == yard.clock.now_s()


def test_pod_that_has_to_go_is_not_desired_any_more(yard: Yard, body: Json) -> None:
    yard.ok("DELETE", "/v1/namespaces/default/jobs/job")
    yard.cycle()
    assert yard.ok("POST", PATH, body)["desired"] == []


def test_session_that_is_over_is_refused_though_it_says_the_same(yard: Yard, body: Json) -> None:
    yard.ok("POST", PATH, body | {"session": "s2"})
    assert "another agent" in yard.refused(409, "POST", PATH, body)["session"]
    yard.ok("POST", PATH, body | {"session": "s2"})


def test_change_of_the_policy_is_told(yard: Yard, body: Json) -> None:
    policy = yard.ok("GET", "/v1/policy")
    yard.ok("PUT", "/v1/policy", policy | {"lost_after_s": 100.0, "suspect_after_s": 15.0})
    answer = yard.ok("POST", PATH, body)
    assert (answer["fence_after_s"], answer["next_s"]) == (80.0, 5.0)
    yard.ok("PUT", "/v1/policy", policy | {"lost_after_s": 30.0, "suspect_after_s": 30.0})
    assert yard.ok("POST", PATH, body)["fence_after_s"] == 15.0


def test_change_of_the_node_is_told(yard: Yard, body: Json) -> None:
    yard.ok("POST", "/v1/nodes/c1/faults", {"code": "xid_79"})
    assert yard.ok("POST", PATH, body)["health"] == "out"


def test_new_leader_is_told(yard: Yard, body: Json) -> None:
    with yard.database.write(yard.clock.now_s()) as tx:
        tx.connection.execute(sa.update(leader).values(epoch=7))
        tx.emit("leader.began", subject_kind="leader", name="another")
    assert yard.ok("POST", PATH, body)["epoch"] == 7


def test_node_that_was_removed_is_not_found(yard: Yard) -> None:
    yard.load()
    said: Json = {"session": "s1", "boot_id": "b1", "pods": []}
    yard.ok("POST", "/v1/nodes/a1/heartbeat", said)
    yard.ok("POST", "/v1/nodes/a1/heartbeat", said)
    rest = "levels: [leaf, rack, node]\nscale_up: node\nnode_types: {small: {gpu: CARD, gpus: 8}}\n"
    rest += 'nodes: [{names: "c[1-4]", type: small, rack: r3, leaf: l2}]\n'
    yard.load(rest, "?prune=true")
    yard.refused(404, "POST", "/v1/nodes/a1/heartbeat", said)


def test_other_words_for_the_same_are_looked_at_anew(yard: Yard, body: Json) -> None:
    text = '{"session": "s1", "boot_id": "b1", "pods": []}'
    json = {"Content-Type": "application/json"}
    assert yard.call("POST", PATH, content=text, headers=json).json()["desired"]
    wrong = yard.call("POST", PATH, content=text, headers={"Content-Type": "text/plain"})
    assert wrong.status_code == 415
    assert yard.call("POST", f"{PATH}?x=1", body).status_code == 422


def test_node_that_is_tested_is_healthy_when_its_agent_says_that_it_has_passed(
    yard: Yard,
) -> None:
    yard.load()
    said: Json = {"session": "s1", "boot_id": "b1", "pods": []}
    yard.ok("POST", PATH, said)
    yard.ok("POST", "/v1/nodes/c1/faults", {"code": "xid_48"})
    yard.cycle()
    assert yard.ok("POST", PATH, said)["health"] == "testing"
    assert yard.ok("POST", PATH, said | {"passed": True})["health"] == "healthy"
    assert yard.items("/v1/faults?open=true") == []
    assert yard.ok("GET", "/v1/nodes/c1")["health"] == "healthy"
