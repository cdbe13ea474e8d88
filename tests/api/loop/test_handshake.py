"""The checkpoint handshake with real receivers: each job ends as designed, nobody leaves early."""

import threading
from collections.abc import Iterator

import pytest

from api.store.commit import commit
from api.store.policy import load_policy
from api.store.snapshot import load_world
from scheduler.cycle import run_cycle
from tests.api.hooks.receiver import Receiver, Reply, saved
from tests.api.http.yard import Yard
from tests.api.loop.hooked import GRACE_S, HIGH, LOW, Hooked

URI = "s3://bucket/run"


@pytest.fixture
def hooked(yard: Yard) -> Iterator[Hooked]:
    with Receiver() as receiver:
        yield Hooked(yard, receiver)


def ends_in_line(hooked: Hooked) -> None:
    """What every handshake comes to: low waits in line, high has its place."""
    assert hooked.leaving() == ("evicting", "terminating")
    assert hooked.pod_states() == {"terminating"}
    hooked.stop_low()
    assert hooked.low()["state"] in {"pending", "reserved"}
    assert hooked.yard.ok("GET", HIGH)["state"] == "bound"


def has_not_left(hooked: Hooked) -> None:
    assert hooked.low()["state"] == "evicting"
    assert hooked.pod_states() == {"running"}


def test_a_hook_that_has_saved_lets_its_job_leave_at_once(hooked: Hooked) -> None:
    hooked.run_low(uri=URI)
    hooked.preempt()
    assert hooked.leaving() == ("evicting", "asked")
    has_not_left(hooked)
    hooked.receiver.answer = lambda got: (
        saved(7, f"{URI}/7") if got.kind == "checkpoint.requested" else Reply()
    )
    hooked.step()
    assert hooked.low()["saved"] == {
        "step": 7,
        "uri": f"{URI}/7",
        "at": hooked.yard.items(f"{LOW}/checkpoints")[0]["at"],
    }
    ends_in_line(hooked)
    (delivery,) = hooked.deliveries()
    assert (delivery["state"], delivery["status"], delivery["attempts"]) == ("delivered", 200, 1)


def test_a_request_says_what_is_asked_and_by_when(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.outbox.drain()
    (asked,) = (got for got in hooked.receiver.got if got.kind == "checkpoint.requested")
    assert asked.data["grace_s"] == GRACE_S
    assert asked.data["report_to"] == f"{LOW}/checkpoints"
    assert asked.data["then"] == "pending"
    assert (asked.data["namespace"], asked.data["name"]) == ("default", "low")
    assert asked.data["request_id"] == hooked.deliveries()[0]["request_id"]


def test_a_hook_that_acknowledges_after_3_s_and_saves_later(hooked: Hooked) -> None:
    """It answers 202 when 3 s have gone by, and the job tells of its checkpoint 20 s later."""
    hooked.run_low()
    hooked.preempt()
    answer = hooked.receiver.hang()
    answer.status = 202
    hooked.receiver.answer = lambda got: answer if got.kind == "checkpoint.requested" else Reply()
    sending = threading.Thread(target=hooked.outbox.drain)
    sending.start()
    assert hooked.receiver.arrived.acquire(timeout=30)
    for _ in range(3):
        hooked.clock.advance(1)
        hooked.yard.cycle()
        has_not_left(hooked)
    assert answer.waits is not None
    answer.waits.set()
    sending.join(30)
    hooked.yard.cycle()
    assert hooked.leaving() == ("evicting", "saving")
    hooked.step(20)
    has_not_left(hooked)
    request_id = hooked.deliveries()[0]["request_id"]
    body = {"step": 9, "uri": f"{URI}/9", "request_id": request_id}
    hooked.yard.ok("POST", f"{LOW}/checkpoints", body)
    hooked.step()
    ends_in_line(hooked)


def test_a_job_that_said_it_saves_and_does_not_leaves_when_its_time_is_over(
    hooked: Hooked,
) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.answer = lambda _: Reply(202)
    hooked.step()
    hooked.step(GRACE_S - 1)
    assert hooked.leaving() == ("evicting", "saving")
    has_not_left(hooked)
    hooked.step(1)
    ends_in_line(hooked)


def test_a_hook_that_never_answers_has_all_of_its_grace(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.answer = lambda got: hooked.receiver.hang()
    hooked.never_answered()
    hooked.step()
    for _ in range(int(GRACE_S) // 20):
        has_not_left(hooked)
        hooked.step(19.9)
    has_not_left(hooked)
    hooked.step(1)
    ends_in_line(hooked)
    (delivery,) = hooked.deliveries()
    assert delivery["state"] == "dead"
    assert delivery["error"] == "no answer within 0.3 s"


def test_a_hook_that_hangs_in_the_middle_of_its_answer_has_all_of_its_grace(
    hooked: Hooked,
) -> None:
    """What it said before it hung is no answer, even if it began well."""
    hooked.run_low(uri=URI)
    hooked.preempt()
    hooked.receiver.answer = lambda got: (
        hooked.receiver.stall(saved(3, f"{URI}/3"))
        if got.kind == "checkpoint.requested"
        else Reply()
    )
    hooked.never_answered()
    hooked.step()
    has_not_left(hooked)
    assert hooked.deliveries()[0]["error"]
    hooked.step(GRACE_S - 1)
    has_not_left(hooked)
    hooked.step(1)
    ends_in_line(hooked)
    assert hooked.low()["saved"] is None


def test_a_hook_where_nobody_listens_has_all_of_its_grace(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.__exit__()
    hooked.step()
    hooked.step(GRACE_S - 1)
    has_not_left(hooked)
    hooked.step(1)
    ends_in_line(hooked)


def test_a_hook_that_answers_500_twice_is_asked_again_and_saves(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    replies = [Reply(500), Reply(500), saved(3, f"{URI}/3")]
    hooked.receiver.answer = lambda got: (
        replies.pop(0) if got.kind == "checkpoint.requested" else Reply()
    )
    hooked.step()
    has_not_left(hooked)
    hooked.step(1)
    has_not_left(hooked)
    assert hooked.deliveries()[0]["attempts"] == 2
    hooked.step(2)
    ends_in_line(hooked)
    asked = [got for got in hooked.receiver.got if got.kind == "checkpoint.requested"]
    assert len(asked) == 3
    assert len({got.headers["webhook-id"] for got in asked}) == 1
    assert len({got.body for got in asked}) == 1


def test_a_hook_that_refuses_gives_its_job_no_less_time(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.answer = lambda _: Reply(403)
    hooked.step()
    hooked.step(GRACE_S - 1)
    has_not_left(hooked)
    hooked.step(1)
    ends_in_line(hooked)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200),
        Reply(204),
        Reply(200, b"[]"),
        Reply(200, b'{"state": "saved", "step": -1, "uri": "x"}'),
        Reply(200, b'{"state": "saving", "step": 1, "uri": "s3://bucket/run/1"}'),
        saved(1, "s3://elsewhere/1"),
        saved(1, f"{URI}/../../other/1"),
    ],
)
def test_an_answer_that_is_none_is_like_a_refusal(hooked: Hooked, reply: Reply) -> None:
    hooked.run_low(uri=URI)
    hooked.preempt()
    hooked.receiver.answer = lambda _: reply
    hooked.step()
    has_not_left(hooked)
    (delivery,) = hooked.deliveries()
    assert delivery["state"] == "pending"
    assert delivery["error"]
    assert hooked.low()["saved"] is None


def test_a_job_is_not_evicted_before_it_was_asked_however_late(hooked: Hooked) -> None:
    """The outbox is away for an hour; the time that the job has begins when it is back."""
    hooked.run_low()
    hooked.preempt()
    hooked.clock.advance(3600)
    hooked.yard.cycle()
    has_not_left(hooked)
    hooked.receiver.answer = lambda _: Reply(202)
    hooked.step()
    hooked.step(GRACE_S - 1)
    has_not_left(hooked)
    hooked.step(1)
    ends_in_line(hooked)


def test_a_request_not_sent_yet_is_withdrawn_when_nobody_needs_the_place(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.yard.ok("DELETE", HIGH)
    hooked.yard.cycle()
    assert hooked.low()["state"] == "running"
    assert hooked.low()["evicting"] is None
    hooked.step()
    assert "checkpoint.requested" not in hooked.receiver.kinds()
    assert [d["state"] for d in hooked.deliveries()] == ["withdrawn"]


def test_a_request_that_was_sent_is_not_withdrawn(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.answer = lambda _: Reply(202)
    hooked.outbox.drain()
    hooked.yard.ok("DELETE", HIGH)
    hooked.yard.cycle()
    assert hooked.leaving() == ("evicting", "saving")


def test_a_plan_decided_before_the_job_was_asked_does_not_withdraw_it(hooked: Hooked) -> None:
    """The outbox begins to ask while a cycle decides that nobody needs the place."""
    hooked.run_low()
    hooked.preempt()
    hooked.yard.ok("DELETE", HIGH)
    database, now_s = hooked.yard.database, hooked.clock.now_s()
    plan = run_cycle(load_world(database), load_policy(database), now_s)
    hooked.receiver.answer = lambda _: Reply(202)
    hooked.outbox.drain()
    done = commit(database, plan, 0, now_s)
    assert str(hooked.low()["uid"]) in done.dropped
    hooked.yard.cycle()
    assert hooked.leaving() == ("evicting", "saving")


def test_a_checkpoint_for_another_request_does_not_end_the_wait(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.preempt()
    hooked.receiver.answer = lambda _: Reply(202)
    hooked.step()
    for request_id in (None, "another"):
        hooked.yard.ok(
            "POST",
            f"{LOW}/checkpoints",
            {"step": 1, "uri": f"{URI}/1", "request_id": request_id},
        )
        hooked.step(1)
        has_not_left(hooked)


def test_an_owner_who_suspends_a_job_lets_it_save_first(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.yard.ok("POST", f"{LOW}/suspend")
    hooked.yard.cycle()
    has_not_left(hooked)
    hooked.receiver.answer = lambda got: (
        saved(5, f"{URI}/5") if got.kind == "checkpoint.requested" else Reply()
    )
    hooked.step()
    hooked.stop_low()
    assert hooked.low()["state"] == "suspended"


def test_a_request_does_not_wait_behind_notices_that_were_not_taken(hooked: Hooked) -> None:
    hooked.run_low()
    hooked.receiver.answer = lambda _: Reply(500)
    hooked.yard.ok("POST", f"{LOW}/suspend")
    hooked.yard.cycle()
    hooked.outbox.drain()
    assert sorted(hooked.receiver.kinds()) == ["checkpoint.requested", "job.evicting"]
