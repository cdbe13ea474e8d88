"""Notices: written with what they are about, sent in order, at least once, given up in the end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from api.hooks.send import Answer
from api.loop.outbox import NOTICE_S, NOTICE_S_MAX, REQUEST_S_MAX, outcome_of, pause_s
from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import Deposed
from api.store.outbox import Delivery, DeliveryState, prune_deliveries
from api.store.policy import load_policy
from api.store.snapshot import load_world
from scheduler.cycle import run_cycle
from tests.api.hooks.receiver import Received, Receiver, Reply
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard
from tests.api.loop.hooked import LOW, Hooked

DELIVERY = Delivery(
    number=1,
    id="u-1",
    kind="job.finished",
    job_uid="u",
    namespace="n",
    name="j",
    url="http://127.0.0.1/",
    lane="u-0",
    body="{}",
    state=DeliveryState.PENDING,
    attempts=0,
    request_id=None,
    grace_s=None,
    at=0.0,
    due_at=0.0,
    asked_at=None,
    done_at=None,
    status=None,
    error="",
)


@pytest.fixture
def hooked(yard: Yard) -> Iterator[Hooked]:
    with Receiver() as receiver:
        yield Hooked(yard, receiver)


def submit(hooked: Hooked, **fields: object) -> None:
    body = {"parallelism": {"tp": 8, "dp": 2}, "hooks": [{"url": hooked.receiver.url}]} | fields
    hooked.yard.submit("low", **body)


def numbers(got: list[Received]) -> list[int]:
    return [int(received.headers["webhook-id"].rpartition("-")[2]) for received in got]


def deliveries(hooked: Hooked, query: str = "") -> list[Json]:
    return hooked.yard.items(f"/v1/hooks/deliveries{query}")


def test_a_life_is_told_in_order(hooked: Hooked) -> None:
    submit(hooked)
    hooked.yard.cycle()
    hooked.yard.report_all("running")
    hooked.yard.report_all("succeeded", 0)
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["placement.bound", "job.finished"]
    assert numbers(hooked.receiver.got) == sorted(numbers(hooked.receiver.got))
    bound, finished = (got.data for got in hooked.receiver.got)
    assert finished["state"] == "succeeded"
    assert bound["attempt"] == 1
    assert bound["checkpoint"] is None
    assert bound["pod_count"] == 2
    pods = bound["pods"]
    assert isinstance(pods, list)
    assert [(p["node"], p["gpus"], p["first_rank"]) for p in pods] == [
        ("a1", list(range(8)), 0),
        ("a2", list(range(8)), 8),
    ]


def test_only_what_a_hook_asked_for_is_told(hooked: Hooked) -> None:
    submit(hooked, hooks=[{"url": hooked.receiver.url, "events": ["job.finished"]}])
    hooked.yard.cycle()
    hooked.yard.report_all("succeeded", 0)
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["job.finished"]


def test_a_job_without_hooks_writes_nothing(hooked: Hooked) -> None:
    submit(hooked, hooks=[])
    hooked.yard.cycle()
    hooked.yard.report_all("succeeded", 0)
    assert deliveries(hooked) == []


def test_a_job_that_is_cancelled_while_it_waits_is_told_of(hooked: Hooked) -> None:
    submit(hooked)
    hooked.yard.ok("DELETE", LOW)
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["job.finished"]
    assert hooked.receiver.got[0].data["state"] == "cancelled"


def test_a_restart_is_told_with_its_checkpoint_and_the_ranks_that_moved(hooked: Hooked) -> None:
    submit(hooked, failure={"max_restarts": 3})
    hooked.yard.cycle()
    hooked.yard.report_all("running")
    hooked.yard.ok("POST", f"{LOW}/checkpoints", {"step": 40, "uri": "s3://b/40"})
    pod = hooked.yard.items("/v1/pods?job=low")[0]
    path = f"/v1/namespaces/default/pods/{pod['name']}/status"
    hooked.yard.ok("POST", path, {"attempt": 1, "state": "failed", "exit_code": 1})
    hooked.yard.cycle(2)
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["placement.bound", "placement.bound", "job.restarting"]
    again = hooked.receiver.got[-1].data
    assert again["checkpoint"] == {"step": 40, "uri": "s3://b/40", "tier": None}
    assert again["attempt"] == 2
    assert again["pod_count"] == 2
    assert again["changed_ranks"] == []


def test_followers_wait_behind_a_notice_that_is_not_taken(hooked: Hooked) -> None:
    submit(hooked)
    hooked.yard.cycle()
    hooked.yard.report_all("succeeded", 0)
    hooked.receiver.answer = lambda got: Reply(500)
    hooked.outbox.drain()
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["placement.bound"]
    hooked.receiver.answer = lambda got: Reply()
    hooked.clock.advance(NOTICE_S)
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["placement.bound", "placement.bound", "job.finished"]


def test_one_hook_does_not_wait_for_another(hooked: Hooked) -> None:
    with Receiver() as other:
        other.answer = lambda got: Reply(500)
        submit(hooked, hooks=[{"url": other.url}, {"url": hooked.receiver.url}])
        hooked.yard.cycle()
        hooked.yard.report_all("succeeded", 0)
        hooked.outbox.drain()
        assert other.kinds() == ["placement.bound"]
    assert hooked.receiver.kinds() == ["placement.bound", "job.finished"]


def test_a_notice_is_dead_after_its_tries_and_the_next_is_sent(hooked: Hooked) -> None:
    submit(hooked)
    hooked.yard.cycle()
    hooked.yard.report_all("succeeded", 0)
    hooked.receiver.answer = lambda got: Reply(204 if got.kind == "job.finished" else 500)
    for _ in range(12):
        hooked.outbox.drain()
        hooked.clock.advance(NOTICE_S_MAX)
    hooked.outbox.drain()
    assert hooked.receiver.kinds() == ["placement.bound"] * 12 + ["job.finished"]
    assert len({got.headers["webhook-id"] for got in hooked.receiver.got}) == 2
    (dead,) = deliveries(hooked, "?state=dead")
    assert (dead["attempts"], dead["status"], dead["error"]) == (12, 500, "answered 500")
    assert hooked.receiver.got[-1].kind == "job.finished"


def test_a_dead_notice_can_be_sent_again_by_hand(hooked: Hooked) -> None:
    submit(hooked)
    hooked.yard.cycle()
    hooked.receiver.answer = lambda got: Reply(410)
    hooked.outbox.drain()
    (dead,) = deliveries(hooked, "?state=dead")
    hooked.receiver.answer = lambda got: Reply()
    retried = hooked.yard.ok("POST", f"/v1/hooks/deliveries/{dead['id']}/retry")
    assert (retried["state"], retried["attempts"]) == ("pending", 0)
    hooked.outbox.drain()
    assert [got.headers["webhook-id"] for got in hooked.receiver.got] == [dead["id"]] * 2
    told = hooked.yard.refused(409, "POST", f"/v1/hooks/deliveries/{dead['id']}/retry")
    assert "delivered" in told[""]


def test_a_request_to_save_is_not_sent_by_hand_when_its_time_is_over(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.answer = lambda got: Reply(500)
    for _ in range(30):
        hooked.step(5)
    (dead,) = hooked.deliveries()
    assert dead["state"] == "dead"
    told = hooked.yard.refused(409, "POST", f"/v1/hooks/deliveries/{dead['id']}/retry")
    assert "time" in told[""]


def test_a_message_that_does_not_exist_is_404(any_yard: Yard) -> None:
    any_yard.refused(404, "GET", "/v1/hooks/deliveries/none")
    any_yard.refused(404, "POST", "/v1/hooks/deliveries/none/retry")


def test_messages_are_listed_by_page_newest_first_and_without_queries(hooked: Hooked) -> None:
    submit(hooked, hooks=[{"url": f"{hooked.receiver.url}?token=hunter2"}])
    hooked.yard.cycle()
    hooked.yard.report_all("succeeded", 0)
    hooked.outbox.drain()
    assert hooked.receiver.got[0].path == "/hook?token=hunter2"
    first = hooked.yard.call("GET", "/v1/hooks/deliveries?limit=1")
    page = first.json()
    rest = hooked.yard.items(f"/v1/hooks/deliveries?limit=1&cursor={page['next']}")
    assert [d["kind"] for d in (*page["items"], *rest)] == ["job.finished", "placement.bound"]
    assert "hunter2" not in first.text
    assert page["items"][0]["url"] == hooked.receiver.url
    assert hooked.yard.items("/v1/hooks/deliveries?namespace=other") == []
    assert len(hooked.yard.items("/v1/hooks/deliveries?job=low&state=delivered")) == 2


def test_messages_that_are_done_with_are_forgotten_after_a_time(hooked: Hooked) -> None:
    submit(hooked)
    hooked.yard.cycle()
    hooked.outbox.drain()
    now_s = hooked.clock.now_s()
    assert prune_deliveries(hooked.yard.database, before=now_s) == 0
    assert prune_deliveries(hooked.yard.database, before=now_s + 1) == 1
    assert deliveries(hooked) == []


def test_a_plan_that_is_not_committed_tells_nobody(hooked: Hooked) -> None:

    submit(hooked)
    database, now_s = hooked.yard.database, hooked.clock.now_s()
    plan = run_cycle(load_world(database), load_policy(database), now_s)
    with pytest.raises(Deposed):
        commit(database, plan, 77, now_s)
    assert deliveries(hooked) == []


def test_pauses_double_up_to_a_limit_and_differ_between_messages() -> None:
    pauses = [pause_s(DELIVERY, attempt) for attempt in range(1, 40)]
    for attempt, pause in enumerate(pauses, 1):
        whole = min(NOTICE_S * 2 ** (attempt - 1), NOTICE_S_MAX)
        assert whole / 2 <= pause <= whole
    assert pauses == [pause_s(DELIVERY, attempt) for attempt in range(1, 40)]
    assert pause_s(DELIVERY, 5) != pause_s(replace(DELIVERY, id="u-2"), 5)
    assert pause_s(replace(DELIVERY, request_id="r"), 39) <= REQUEST_S_MAX


def test_twelve_tries_take_about_two_hours() -> None:
    assert 1 * 3600 < sum(pause_s(DELIVERY, attempt) for attempt in range(1, 12)) < 3 * 3600


def test_a_receiver_that_wants_no_more_is_not_asked_again() -> None:
    answer = Answer(410, error="answered 410")
    assert outcome_of(DELIVERY, answer, now_s=0.0, tries=12).due_at is None


KILLED = """
import sys
from api.clock import ManualClock
from api.hooks.allow import read_allowed
from api.hooks.send import Sender
from api.hooks.sign import Secrets
from api.loop.outbox import Outbox
from api.store.schema import open_database

sender = Sender(read_allowed([], loopback=True), Secrets(), timeout_s=60.0, bytes_max=65536)
Outbox(open_database(sys.argv[1]), ManualClock(), sender).drain()
"""


@pytest.mark.slow
@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_message_is_sent_again_after_a_kill_between_sending_and_writing(
    database: Database, contract: Contract
) -> None:
    with Yard(database, contract) as yard, Receiver() as receiver:
        hooked = Hooked(yard, receiver)
        submit(hooked)
        yard.cycle()
        receiver.answer = lambda got: receiver.hang()
        child = subprocess.Popen([sys.executable, "-c", KILLED, database.url])
        try:
            assert receiver.arrived.acquire(timeout=60)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(30)
        (pending,) = deliveries(hooked)
        assert pending["state"] == "pending"
        receiver.answer = lambda got: Reply()
        hooked.outbox.drain()
        ids = [got.headers["webhook-id"] for got in receiver.got]
        assert ids == [pending["id"]] * 2
        assert receiver.got[0].body == receiver.got[1].body
        assert deliveries(hooked)[0]["state"] == "delivered"


def test_the_loop_delivers_by_itself_while_it_leads(hooked: Hooked) -> None:
    leads = False
    hooked.outbox.start(lambda: leads)
    try:
        submit(hooked)
        hooked.yard.cycle()
        hooked.outbox.wake()
        assert not receiver_got(hooked, 0.2)
        leads = True
        hooked.outbox.wake()
        assert receiver_got(hooked, 30.0)
    finally:
        hooked.outbox.stop()
    assert hooked.receiver.kinds() == ["placement.bound"]


def receiver_got(hooked: Hooked, timeout_s: float) -> bool:
    return hooked.receiver.arrived.acquire(timeout=timeout_s)
