"""Silent agents: what the service makes of them, and of what they say when they are back."""

import pytest
import sqlalchemy as sa

from api.loop.silence import Silence
from api.store.policy import load_policy
from api.store.snapshot import load_world
from api.store.tables import leader
from tests.api.http.yard import Json, Yard


class Watched:
    """A service whose leader judges silence when the test says so; `c1` to `c4` have agents."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.boot = "b1"
        self.said: dict[str, list[Json]] = {}
        yard.load()
        policy = yard.ok("GET", "/v1/policy")
        times = {"suspect_after_s": 30, "lost_after_s": 90, "breaker_share": 0.3}
        yard.ok("PUT", "/v1/policy", policy | times)
        self.begin()
        for number in range(1, 5):
            self.beat(f"c{number}")

    def begin(self) -> None:
        """A service that has just started."""
        self.silence = Silence(self.yard.app.service.leases)
        self.judge()

    def judge(self) -> bool:
        database = self.yard.database
        with database.read() as connection:
            epoch = connection.execute(sa.select(leader.c.epoch)).scalar_one()
        now_s = self.yard.clock.now_s()
        return self.silence.turn(load_world(database), load_policy(database), epoch, now_s)

    def beat(self, node: str, session: str = "s1") -> Json:
        """A heartbeat that says what the node's agent said it runs."""
        pods = self.said.setdefault(node, [])
        body = {"session": session, "boot_id": self.boot, "pods": pods}
        return self.yard.ok("POST", f"/v1/nodes/{node}/heartbeat", body)

    def run(self, node: str, state: str = "running") -> None:
        """Let the agent start what it is told to, and say so."""
        desired = self.beat(node)["desired"]
        assert isinstance(desired, list)
        self.said[node] = [
            {"uid": pod["uid"], "attempt": pod["attempt"], "state": state} for pod in desired
        ]
        self.beat(node)

    def advance(self, seconds: float, *silent: str) -> None:
        """Let time pass in steps of ten seconds; all but some nodes are heard in each."""
        while seconds > 0:
            step = min(10.0, seconds)
            self.yard.ok("POST", "/v1/test/clock", {"advance_s": step})
            for node in sorted(self.said.keys() - set(silent)):
                self.beat(node)
            self.judge()
            seconds -= step

    def health(self, node: str) -> object:
        return self.yard.ok("GET", f"/v1/nodes/{node}")["health"]

    def pods(self) -> dict[object, object]:
        return {pod["name"]: pod["state"] for pod in self.yard.items("/v1/pods")}


@pytest.fixture
def watched(yard: Yard) -> Watched:
    return Watched(yard)


@pytest.fixture
def running(watched: Watched) -> Watched:
    run_one(watched)
    return watched


def run_one(watched: Watched) -> None:
    """One job runs on `c1` and `c2`, and could nowhere else."""
    run = {"command": ["true"]}
    watched.yard.submit("job", parallelism={"tp": 8, "dp": 2}, nodes=["c[1-2]"], run=run)
    watched.yard.cycle()
    for node in ("c1", "c2"):
        watched.run(node)
    watched.yard.cycle()
    assert set(watched.pods().values()) == {"running"}


def test_silent_node_is_suspect_then_lost_and_heard_again_it_is_healthy(running: Watched) -> None:
    running.advance(20, "c2")
    assert running.health("c2") == "healthy"
    running.advance(10, "c2")
    assert running.health("c2") == "suspect"
    running.beat("c2")
    assert running.health("c2") == "healthy"
    running.advance(90, "c2")
    assert running.health("c2") == "lost"
    running.beat("c2")
    assert running.health("c2") == "healthy"
    assert running.health("c1") == "healthy"


def test_suspect_node_takes_no_new_pods_and_keeps_its_own(running: Watched) -> None:
    running.advance(30, "c2", "c3")
    running.yard.submit("wide", parallelism={"tp": 8, "dp": 10})
    running.yard.cycle()
    assert running.yard.ok("GET", "/v1/namespaces/default/jobs/wide")["state"] == "pending"
    assert running.pods() == {"job-0": "running", "job-1": "running"}
    running.beat("c3")
    running.yard.cycle()
    assert running.yard.ok("GET", "/v1/namespaces/default/jobs/wide")["state"] == "bound"


def test_each_job_loses_its_pods_after_its_own_time_of_silence(watched: Watched) -> None:
    patience_s = {"brief": 40, "plain": None, "patient": 200}
    for name, own_s in patience_s.items():
        failure = {"scope": "pod"} | ({} if own_s is None else {"lost_after_s": own_s})
        watched.yard.submit(
            name, parallelism={"tp": 2}, nodes=["c2"], run={"command": ["true"]}, failure=failure
        )
    watched.yard.cycle()
    watched.run("c2")
    watched.yard.cycle()
    running, lost = "running", "lost"

    def states() -> list[object]:
        watched.yard.cycle()
        found = watched.pods()
        return [found[f"{name}-0"] for name in patience_s]

    watched.advance(30, "c2")
    assert (watched.health("c2"), states()) == ("suspect", [running, running, running])
    watched.advance(10, "c2")
    assert (watched.health("c2"), states()) == ("lost", [lost, running, running])
    watched.advance(40, "c2")
    assert states() == [lost, running, running]
    watched.advance(10, "c2")
    assert states() == [lost, lost, running]
    watched.advance(100, "c2")
    assert states() == [lost, lost, running]
    watched.beat("c2")
    assert (watched.health("c2"), states()) == ("healthy", [running, running, running])
    watched.advance(200, "c2")
    assert states() == [lost, lost, lost]


def test_pods_of_a_patient_job_go_with_a_machine_that_is_said_to_be_gone(watched: Watched) -> None:
    watched.yard.submit(
        "patient",
        parallelism={"tp": 2},
        nodes=["c2"],
        run={"command": ["true"]},
        failure={"lost_after_s": 10_000},
    )
    watched.yard.cycle()
    watched.run("c2")
    watched.advance(100, "c2")
    watched.yard.cycle()
    assert (watched.health("c2"), watched.pods()) == ("lost", {"patient-0": "running"})
    watched.yard.ok("POST", "/v1/nodes/c2/fence", {"reason": "burnt"})
    watched.yard.cycle()
    assert watched.pods()["patient-0"] != "running"


@pytest.mark.parametrize("value", [0, -1, "soon", 1e12])
def test_time_of_silence_has_to_be_one(any_yard: Yard, value: object) -> None:
    body = {"name": "j", "parallelism": {"tp": 1}, "failure": {"lost_after_s": value}}
    assert "failure.lost_after_s" in any_yard.refused(422, "POST", "/v1/jobs", body)


def test_node_that_is_back_with_a_pod_that_is_not_its_own_waits_until_that_has_stopped(
    running: Watched,
) -> None:
    running.advance(90, "c2")
    stray: Json = {"uid": "stray", "attempt": 1, "state": "running"}
    own, running.said["c2"] = running.said["c2"], [*running.said["c2"], stray]
    assert len(str(running.beat("c2")["ignored"])) > 2
    assert running.health("c2") == "lost"
    running.said["c2"] = [*own, stray | {"state": "terminating"}]
    running.beat("c2")
    assert running.health("c2") == "lost"
    running.said["c2"] = [*own, stray | {"state": "stopped"}]
    running.beat("c2")
    assert running.health("c2") == "healthy"


def test_service_that_was_away_for_ten_minutes_loses_nothing(running: Watched) -> None:
    before = running.pods()
    running.yard.ok("POST", "/v1/test/clock", {"advance_s": 600})
    running.begin()
    running.yard.cycle()
    assert (running.pods(), running.health("c1")) == (before, "healthy")
    running.advance(20)
    running.yard.cycle()
    assert running.pods() == before
    assert {running.health(node) for node in running.said} == {"healthy"}


def test_silence_before_the_service_was_away_does_not_count(running: Watched) -> None:
    running.advance(80, "c2")
    assert running.health("c2") == "suspect"
    running.yard.ok("POST", "/v1/test/clock", {"advance_s": 600})
    running.begin()
    running.advance(80, "c2")
    assert running.health("c2") == "suspect"
    running.advance(10, "c2")
    assert running.health("c2") == "lost"


def test_half_of_the_agents_silent_at_once_are_suspect_and_never_lost(running: Watched) -> None:
    silent = ["c3", "c4"]
    running.advance(270, *silent)
    assert {running.health(node) for node in silent} == {"suspect"}
    assert set(running.pods().values()) == {"running"}
    running.advance(10)
    assert {running.health(node) for node in running.said} == {"healthy"}


def test_silence_is_no_reason_to_write_while_nothing_changes(running: Watched) -> None:
    def revision() -> object:
        return running.yard.ok("GET", "/v1/overview")["revision"]

    running.advance(90, "c2")
    before = revision()
    running.advance(100, "c2")
    assert revision() == before


def test_machine_that_was_started_anew_has_none_of_its_pods_any_more(running: Watched) -> None:
    running.boot, running.said["c2"] = "b2", []
    running.beat("c2", session="s2")
    found = str(running.yard.items("/v1/events?kind=pod.reported")[2:])
    assert "node 'c2' reports stopped" in found
    running.yard.cycle()
    job = running.yard.ok("GET", "/v1/namespaces/default/jobs/job")
    assert (job["state"], job["attempt"], job["crashes"]) == ("bound", 2, 0)


def test_pod_that_was_lost_and_that_the_agent_does_not_have_is_given_up(
    running: Watched,
) -> None:
    running.advance(90, "c2")
    running.yard.cycle()
    assert running.pods()["job-1"] == "lost"
    running.said["c2"] = []
    running.beat("c2")
    assert "reports stopped" in str(running.yard.items("/v1/events?kind=pod.reported"))


def test_lost_pod_goes_on_where_it_is_when_its_node_is_back(running: Watched) -> None:
    running.advance(90, "c2")
    running.yard.cycle()
    assert running.pods()["job-1"] == "lost"
    running.beat("c2")
    running.yard.cycle()
    assert running.pods() == {"job-0": "running", "job-1": "running"}
    assert running.yard.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "running"
