"""Logs of pods: asked for by people, told to the agent of the node, sent by it."""

import base64
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx2
import pytest

from api.clock import ManualClock
from api.store.errors import NotFound
from api.store.log_requests import ANSWER_S, Wanted, answer, answer_of, ask, forget
from tests.api.http.yard import Json, Yard
from tests.client.waiting import until

PATH = "/v1/namespaces/default/pods/job-0/logs"
BEAT: Json = {"session": "s1", "boot_id": "b1", "pods": []}


@pytest.fixture
def bound(yard: Yard) -> Yard:
    """A service with one pod on `a1`, whose agent was heard."""
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["a1"], run={"command": ["true"]})
    yard.cycle()
    yard.ok("POST", "/v1/nodes/a1/heartbeat", BEAT)
    return yard


@pytest.fixture
def readers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def wanted(yard: Yard) -> list[Json]:
    """What the agent of `a1` is asked for."""
    found = yard.ok("POST", "/v1/nodes/a1/heartbeat", BEAT)["logs"]
    assert isinstance(found, list)
    return found


def asked(yard: Yard, readers: ThreadPoolExecutor, query: str = "") -> Future[httpx2.Response]:
    """A person that reads a log, once the agent could know."""
    reading = readers.submit(yard.call, "GET", f"{PATH}?wait_s=30{query}")
    until(lambda: wanted(yard))
    return reading


def send(yard: Yard, log: Json, text: bytes, problem: str = "") -> Json:
    body = {"content": base64.b64encode(text).decode(), "problem": problem}
    return yard.ok("POST", f"/v1/nodes/a1/logs/{log['id']}", body)


def test_agent_is_told_what_is_wanted_and_what_it_sends_is_passed_on(
    bound: Yard, readers: ThreadPoolExecutor
) -> None:
    reading = asked(bound, readers, "&process=3&stream=err&tail_bytes=100")
    (log,) = wanted(bound)
    (pod,) = bound.items("/v1/pods")
    assert log == {
        "id": log["id"],
        "uid": pod["uid"],
        "attempt": 1,
        "process": 3,
        "stream": "err",
        "tail_bytes": 100,
    }
    assert send(bound, log, b"loss 2.3\xff\n")["bytes"] == 10
    assert reading.result().json()["text"] == "loss 2.3\ufffd\n"
    assert wanted(bound) == []


def test_what_the_agent_has_no_log_of_is_refused_with_its_words(
    bound: Yard, readers: ThreadPoolExecutor
) -> None:
    reading = asked(bound, readers)
    (log,) = wanted(bound)
    send(bound, log, b"", "its folder is gone")
    answer = reading.result()
    assert answer.status_code == 409
    assert "node 'a1': its folder is gone" in answer.text


def test_agent_that_does_not_answer_is_waited_for_in_vain(bound: Yard) -> None:
    refused = bound.refused(409, "GET", f"{PATH}?wait_s=0.1")
    assert "has not answered within 0.1 s; ask again" in refused["node"]
    late = {"content": "", "problem": ""}
    bound.refused(404, "POST", "/v1/nodes/a1/logs/1", late)


def test_nobody_waits_longer_than_some_seconds_who_does_not_say_so() -> None:
    assert ANSWER_S < 5.0


def leave(yard: Yard, query: str = "") -> None:
    """Ask, and do not wait for the answer."""
    yard.refused(409, "GET", f"{PATH}?wait_s=0.01{query}")


def test_who_asks_the_same_again_has_what_the_agent_sent_meanwhile(bound: Yard) -> None:
    leave(bound)
    (log,) = wanted(bound)
    send(bound, log, b"step 1\n")
    assert bound.ok("GET", f"{PATH}?wait_s=0.01")["text"] == "step 1\n"
    leave(bound)
    (other,) = wanted(bound)
    assert other["id"] != log["id"]


def test_who_asks_the_same_again_goes_on_waiting_for_the_same(bound: Yard) -> None:
    leave(bound)
    (log,) = wanted(bound)
    for _ in range(3):
        leave(bound)
    assert wanted(bound) == [log]


def test_another_question_is_another_request(bound: Yard) -> None:
    leave(bound)
    for query in ("&process=1", "&stream=err", "&tail_bytes=5"):
        leave(bound, query)
    assert len(wanted(bound)) == 4


def test_two_that_wait_for_the_same_have_an_answer_each(
    bound: Yard, readers: ThreadPoolExecutor
) -> None:
    both = [readers.submit(bound.call, "GET", f"{PATH}?wait_s=30") for _ in range(2)]
    until(lambda: len(wanted(bound)) == 2)
    for log in wanted(bound):
        send(bound, log, b"step 1\n")
    assert [reading.result().status_code for reading in both] == [200, 200]


def test_of_two_that_wait_for_one_answer_as_the_clock_was_set_ahead_one_asks_again(
    bound: Yard,
) -> None:
    """Nobody seems to wait for the question any more, so another takes it over."""
    database, now_s, wanted_of = bound.database, bound.clock.now_s(), Wanted(0, "out", 100)
    first, _ = ask(database, "default", "job-0", wanted_of, now_s=now_s)
    second, _ = ask(database, "default", "job-0", wanted_of, now_s=now_s + 100.0)
    assert first.id == second.id
    answer(database, "a1", first.id, b"step 1", "", now_s + 101.0)
    found = answer_of(database, second.id)
    assert found is not None
    assert found.content == b"step 1"
    forget(database, second.id, now_s + 101.0)
    with pytest.raises(NotFound, match="log request"):
        answer_of(database, first.id)


def test_what_was_asked_and_left_is_forgotten_soon(bound: Yard) -> None:
    assert isinstance(bound.clock, ManualClock)
    leave(bound)
    bound.clock.advance(14.0)
    assert len(wanted(bound)) == 1
    bound.clock.advance(2.0)
    assert wanted(bound) == []


def test_answer_that_has_lain_there_is_not_given_as_news(bound: Yard) -> None:
    assert isinstance(bound.clock, ManualClock)
    leave(bound)
    (log,) = wanted(bound)
    send(bound, log, b"step 1\n")
    bound.clock.advance(6.0)
    leave(bound)
    assert len(wanted(bound)) == 1


def test_questions_that_were_left_do_not_keep_others_out_for_long(bound: Yard) -> None:
    assert isinstance(bound.clock, ManualClock)
    for number in range(32):
        leave(bound, f"&process={number}")
    refused = bound.refused(409, "GET", f"{PATH}?wait_s=0.01&process=32")
    assert "readers wait for logs already" in refused["node"]
    bound.clock.advance(16.0)
    leave(bound, "&process=32")


def test_pod_on_a_node_without_an_agent_has_no_log(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    assert "has no agent" in yard.refused(409, "GET", PATH)["node"]
    assert "nothing" in yard.refused(404, "GET", PATH.replace("job-0", "nothing"))[""]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?tail_bytes=0", "tail_bytes"),
        ("?tail_bytes=9999999", "tail_bytes"),
        ("?stream=both", "stream"),
        ("?process=-1", "process"),
        ("?wait_s=100", "wait_s"),
        ("?attempt=0", "attempt"),
    ],
)
def test_wrong_question_names_its_field(any_yard: Yard, query: str, field: str) -> None:
    assert list(any_yard.refused(422, "GET", PATH + query)) == [field]


def test_attempt_that_is_yet_to_come_has_no_log(bound: Yard) -> None:
    assert "yet to come" in bound.refused(409, "GET", f"{PATH}?attempt=2")["attempt"]


def test_content_that_is_no_base64_is_refused(any_yard: Yard) -> None:
    body = {"content": "not base 64!", "problem": ""}
    assert list(any_yard.refused(422, "POST", "/v1/nodes/a1/logs/1", body)) == ["content"]


def test_agent_of_a_pod_whose_log_is_read_asks_often_for_a_while(
    bound: Yard, readers: ThreadPoolExecutor
) -> None:
    """Who reads a log reads on: only the first answer takes the time between two heartbeats."""
    (pod,) = bound.items("/v1/pods")
    runs = BEAT | {"pods": [{"uid": pod["uid"], "attempt": 1, "state": "running"}]}

    def next_s() -> object:
        return bound.ok("POST", "/v1/nodes/a1/heartbeat", runs)["next_s"]

    bound.ok("POST", "/v1/nodes/a1/heartbeat", runs)
    bound.cycle()
    assert next_s() == 10.0
    reading = asked(bound, readers)
    (log,) = wanted(bound)
    send(bound, log, b"step 1\n")
    assert reading.result().json()["state"] == "running"
    assert isinstance(bound.clock, ManualClock)
    assert next_s() == 1.0
    bound.clock.advance(59.0)
    assert next_s() == 1.0
    bound.clock.advance(2.0)
    assert next_s() == 10.0


def test_answer_that_comes_a_second_time_is_refused(
    bound: Yard, readers: ThreadPoolExecutor
) -> None:
    reading = asked(bound, readers)
    (log,) = wanted(bound)
    send(bound, log, b"one")
    assert reading.result().json()["text"] == "one"
    again = {"content": "", "problem": ""}
    bound.refused(404, "POST", f"/v1/nodes/a1/logs/{log['id']}", again)
