"""Heartbeats that come late: believed of each pod, and not of how the node is by now."""

import pytest

from tests.api.http.test_heartbeat import desired
from tests.api.http.test_silence import Watched, run_one
from tests.api.http.yard import Json, Yard


class Told(Watched):
    """The same, with agents that say which answer they acted on."""

    def __init__(self, yard: Yard) -> None:
        self.acted_on: dict[str, object] = {}
        super().__init__(yard)

    def beat(self, node: str, session: str = "s1") -> Json:
        answer = self.send(node, self.body(node, session))
        self.acted_on[node] = answer["node_revision"]
        return answer

    def body(self, node: str, session: str = "s1", **more: object) -> Json:
        pods = self.said.setdefault(node, [])
        acted_on = self.acted_on.get(node, 0)
        said = {"session": session, "boot_id": self.boot, "pods": pods, "acted_on": acted_on}
        return said | more

    def send(self, node: str, body: Json) -> Json:
        return self.yard.ok("POST", f"/v1/nodes/{node}/heartbeat", body)

    def revision(self) -> object:
        return self.yard.ok("GET", "/v1/overview")["revision"]

    def reports(self) -> str:
        return str(self.yard.items("/v1/events?kind=pod.reported"))


@pytest.fixture
def told(yard: Yard) -> Told:
    told = Told(yard)
    run_one(told)
    return told


def lose(told: Told, node: str) -> None:
    told.advance(90, node)
    told.yard.cycle()
    assert told.health(node) == "lost"
    assert told.pods()["job-1"] == "lost"


def test_heartbeat_from_before_a_node_was_lost_does_not_bring_it_back(told: Told) -> None:
    before = told.body("c2")
    lose(told, "c2")
    answer = told.send("c2", before)
    assert (answer["health"], answer["next_s"]) == ("lost", 1.0)
    assert told.health("c2") == "lost"
    told.yard.cycle()
    assert told.pods()["job-1"] == "lost"


def test_heartbeat_from_before_a_pod_was_started_does_not_end_it(told: Told) -> None:
    """Its GPUs would be given to another while it runs."""
    before = told.body("c2", pods=[])
    lose(told, "c2")
    told.send("c2", before)
    told.yard.cycle()
    assert told.pods()["job-1"] == "lost"
    assert "stopped" not in told.reports()


def test_node_comes_back_with_the_second_heartbeat_that_reaches_the_service(told: Told) -> None:
    lose(told, "c2")
    assert told.beat("c2")["health"] == "lost"
    assert told.beat("c2")["health"] == "healthy"
    told.yard.cycle()
    assert told.pods() == {"job-0": "running", "job-1": "running"}


def test_late_heartbeat_is_a_sign_of_life(told: Told) -> None:
    before = told.body("c2")
    told.yard.ok("POST", "/v1/nodes/c2/cordon", {"reason": "look"})
    told.advance(20, "c2")
    told.send("c2", before)
    told.advance(20, "c2")
    assert told.health("c2") == "healthy"


def test_end_of_a_pod_counts_however_late_it_is_told(told: Told) -> None:
    pods = [word | {"state": "failed", "exit_code": 3} for word in told.said["c2"]]
    before = told.body("c2", pods=pods)
    lose(told, "c2")
    told.send("c2", before)
    assert "reports failed with exit code 3" in told.reports()
    assert told.health("c2") == "lost"


def test_lost_pod_does_not_run_again_for_what_was_said_before(told: Told) -> None:
    before, reports = told.body("c2"), told.reports()
    lose(told, "c2")
    assert told.send("c2", before)["ignored"] == []
    assert told.reports() == reports


def test_session_after_another_begins_once_it_has_acted_on_an_answer(told: Told) -> None:
    told.yard.submit("late", parallelism={"tp": 8}, nodes=["c3"], run={"command": ["true"]})
    told.yard.cycle()
    revision = told.revision()
    told.acted_on["c3"] = 0
    answer = told.beat("c3", session="s2")
    (pod,) = desired(answer)
    assert (pod["launch"], answer["next_s"]) == (None, 1.0)
    assert told.revision() == revision
    answer = told.beat("c3", session="s2")
    (pod,) = desired(answer)
    assert pod["launch"] is not None
    told.yard.refused(409, "POST", "/v1/nodes/c3/heartbeat", told.body("c3", session="s1"))


def test_first_agent_of_a_node_begins_with_its_first_heartbeat(told: Told) -> None:
    told.yard.submit("first", parallelism={"tp": 8}, nodes=["a1"], run={"command": ["true"]})
    told.yard.cycle()
    answer = told.beat("a1")
    (pod,) = desired(answer)
    assert pod["launch"] is not None


def test_session_whose_first_words_come_after_those_of_a_later_one_does_not_begin(
    told: Told,
) -> None:
    """Nor is its machine in a later life: what runs there would count as gone."""
    first = told.body("c2", session="s2", acted_on=0)
    second = told.body("c2", session="s2")
    told.boot, told.acted_on["c2"], told.said["c2"] = "b2", 0, []
    told.beat("c2", session="s3")
    told.beat("c2", session="s3")
    told.yard.cycle()
    for node in ("c1", "c2"):
        session = {"c1": "s1", "c2": "s3"}[node]
        told.said[node] = [
            {"uid": pod["uid"], "attempt": pod["attempt"], "state": "running"}
            for pod in desired(told.beat(node, session=session))
        ]
        told.beat(node, session=session)
    told.yard.cycle()
    reports = told.reports()
    for body in (first, second):
        assert told.send("c2", body)["stopping"] == []
    assert told.reports() == reports
    told.beat("c2", session="s3")


def test_late_words_of_a_passed_check_do_not_end_another(told: Told) -> None:
    before = told.body("c4", passed=True)
    told.yard.ok("POST", "/v1/nodes/c4/faults", {"code": "xid_48"})
    told.yard.cycle()
    assert told.health("c4") == "testing"
    answer = told.send("c4", before)
    assert (answer["health"], answer["next_s"]) == ("testing", 1.0)
    told.acted_on["c4"] = answer["node_revision"]
    assert told.send("c4", told.body("c4", passed=True))["health"] == "healthy"


def test_revision_of_a_node_stays_while_nothing_changes_of_it(told: Told) -> None:
    before = told.beat("c1")["node_revision"]
    told.yard.submit("other", parallelism={"tp": 8}, nodes=["c3"])
    told.yard.cycle()
    assert told.beat("c1")["node_revision"] == before
    assert told.beat("c1")["next_s"] == 10.0


def test_heartbeat_that_names_a_revision_of_a_database_that_was_put_back_is_late(
    told: Told,
) -> None:
    lose(told, "c2")
    assert told.send("c2", told.body("c2", acted_on=2**62))["health"] == "lost"


def test_agent_that_does_not_say_what_it_acted_on_is_believed(told: Told) -> None:
    lose(told, "c2")
    body = {name: value for name, value in told.body("c2").items() if name != "acted_on"}
    assert told.send("c2", body)["health"] == "healthy"


@pytest.mark.parametrize("acted_on", [-1, "7", 1.5, 2**63, True])
def test_what_was_acted_on_is_a_revision(any_yard: Yard, acted_on: object) -> None:
    body = {"session": "s", "boot_id": "b", "acted_on": acted_on}
    assert "acted_on" in any_yard.refused(422, "POST", "/v1/nodes/a1/heartbeat", body)
