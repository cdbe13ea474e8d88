"""Answers that are asked for often are made once a change for all who are bound alike."""

from functools import partial

import pytest

from api.auth.seen import Names, sees_event, sees_queue, shown_queue, told_body
from api.http import sight as sight_module
from api.http.feed import Batch
from api.http.polling import _present, _stored
from api.http.service import Service
from api.http.sight import Answer, mark_of
from api.http.sse import event_text
from api.store.views import EventView
from scheduler.model.queue import QueueRecord
from tests.api.http.yard import Yard
from tests.api.tenants.town import ALPHA, BETA, alpha_job, gang

SETS_KEPT = 5


def service_of(yard: Yard) -> Service:
    service = yard.app.service
    assert isinstance(service, Service)
    return service


def overview(yard: Yard, names: Names) -> Answer:
    service = service_of(yard)
    return service.sight.overview(partial(_stored, service), partial(_present, service), names)


def test_two_hundred_pollers_of_one_tenant_get_one_answer(yard: Yard) -> None:
    yard.load()
    sight = service_of(yard).sight
    first = overview(yard, frozenset({ALPHA}))
    drawn = sight.map(None, frozenset({ALPHA}))
    assert overview(yard, frozenset({ALPHA})) is first
    for _ in range(200):
        assert sight.overview_at_hand(frozenset({ALPHA})) is first
        assert sight.map_at_hand(None, frozenset({ALPHA})) is drawn


def test_answer_of_one_tenant_is_never_that_of_another(yard: Yard) -> None:
    yard.load()
    yard.ok(
        "POST", "/v1/jobs", alpha_job("wait", **gang(20), if_never_fits="wait", queue="default")
    )
    yard.cycle()
    sets: tuple[Names, ...] = (None, frozenset({ALPHA}), frozenset({BETA}), frozenset())
    answers = [overview(yard, names) for names in sets]
    maps = [service_of(yard).sight.map(None, names) for names in sets]
    assert len({answer.etag for answer in answers}) == len({m.etag for m in maps}) == 4
    assert [b"alpha/wait" in answer.text for answer in answers] == [True, True, False, False]


def test_as_many_sets_of_namespaces_are_kept_and_no_more(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight_module, "SETS_KEPT", SETS_KEPT)
    yard.load()
    for number in range(SETS_KEPT + 3):
        overview(yard, frozenset({f"ns-{number}"}))
    sight = service_of(yard).sight
    kept = sight._overview
    assert len(kept.shapes) <= SETS_KEPT + 1
    assert len(kept.answers) <= SETS_KEPT
    assert None in kept.shapes


def test_mark_of_a_set_does_not_depend_on_its_order() -> None:
    assert mark_of(frozenset(("a", "b"))) == mark_of(frozenset(("b", "a"))) != mark_of(None)


def event(revision: int, namespace: str, **body: object) -> EventView:
    return EventView(revision, 0.0, "job.x", "job", namespace, "n", "u", "m", dict(body))


def batch(*events: EventView) -> Batch:
    texts = tuple((e, event_text(e.revision, {"namespace": e.namespace})) for e in events)
    return Batch(texts, b"".join(text for _, text in texts))


def test_batch_is_read_once_for_all_watchers_who_are_bound_alike() -> None:
    found = batch(event(1, ALPHA), event(2, BETA), event(3, ""))
    texts, whole = found.seen_by(frozenset({ALPHA}))
    assert [e.revision for e, _ in texts] == [1, 3]
    assert found.seen_by(frozenset({ALPHA}))[1] is whole
    assert found.seen_by(None)[1] is found.text


def test_event_does_not_say_for_whom_a_gang_had_to_leave() -> None:
    found = batch(event(1, ALPHA, for_job="0190-their-uid", step="asked"))
    _, text = found.seen_by(frozenset({ALPHA}))
    assert b"their-uid" not in text
    assert b"asked" in text
    assert told_body(None, {"for_job": "x"}) == {"for_job": "x"}


def test_events_of_what_is_no_tenants_are_for_all_but_those_of_queues() -> None:
    def of(kind: str, name: str = "n", **body: object) -> EventView:
        return EventView(1, 0.0, f"{kind}.x", kind, "", name, "u", "m", dict(body))

    names = frozenset({ALPHA})
    assert sees_event(names, of("node"))
    assert not sees_event(names, of("queue"))
    assert sees_event(None, of("queue"))
    assert not sees_event(names, of("object", BETA, resource="namespaces"))
    assert sees_event(names, of("object", ALPHA, resource="namespaces"))
    assert not sees_event(names, of("object", resource="queues.scheduling.volcano.sh"))


def test_queue_is_shown_where_it_and_all_above_it_take_jobs_of_the_namespace() -> None:
    tree = {
        q.name: q
        for q in (
            QueueRecord("top", namespaces=(ALPHA, BETA)),
            QueueRecord("open", parent="top"),
            QueueRecord("ours", parent="top", namespaces=(ALPHA,)),
            QueueRecord("theirs", parent="top", namespaces=(BETA,)),
            QueueRecord("below", parent="theirs"),
        )
    }
    seen = {name for name in tree if sees_queue(frozenset({ALPHA}), name, tree)}
    assert seen == {"top", "open", "ours"}
    assert shown_queue(frozenset({ALPHA}), tree["top"]).namespaces == (ALPHA,)
    assert not sees_queue(frozenset({ALPHA}), "none", tree)
