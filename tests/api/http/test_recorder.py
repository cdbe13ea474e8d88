"""Figures over time, and what is counted with them."""

from typing import Any

import pytest

from api.clock import ManualClock
from api.http.reader import Reader
from api.http.recorder import Recorder
from api.loop.runner import Runner
from api.metrics import OTHER, QUEUES_MAX, Metrics
from api.pace import REST
from api.store.decisions import DecisionLog
from api.store.engine import Database
from api.store.mending import mend
from api.store.series import TIERS, note, read, tier_for
from api.store.snapshot import follow
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard
from tests.api.loop.turns import settle
from tests.api.store.raw import execute

START_S = 1_800_000_000.0


@pytest.fixture
def recorder(yard: Yard) -> Recorder:
    return Recorder(yard.app.service)


def series(yard: Yard, query: str = "") -> dict[str, Any]:
    return yard.ok("GET", f"/v1/series{query}")


def test_sample_shows_in_the_series(yard: Yard, recorder: Recorder) -> None:
    yard.load()
    yard.submit("j", parallelism={"tp": 8, "pp": 2})
    yard.cycle()
    recorder.sample()
    found = series(yard)
    assert found["step_s"] == 15
    assert found["series"]["gpus_used"]["mean"] == [16.0]
    assert found["series"]["fragmentation.rack"]["mean"] == [0.2]
    assert series(yard, "?names=gpus_used,nope")["series"]["nope"]["mean"] == [None]


def test_waits_and_events_are_counted_from_the_first_sample_on(
    yard: Yard, recorder: Recorder
) -> None:
    yard.load()
    recorder.sample()
    yard.submit("j", parallelism={"tp": 8})
    yard.ok("POST", "/v1/test/clock", {"advance_s": 20})
    yard.cycle()
    recorder.sample()
    text = yard.call("GET", "/metrics").text
    assert 'podyard_events_total{kind="job.bound"} 1.0' in text
    assert 'podyard_queue_wait_seconds_sum{queue="default"} 20.0' in text
    assert series(yard)["series"]["wait_s"]["mean"][-1] == 20.0


def test_regret_and_spread_of_gangs_are_measured(yard: Yard, recorder: Recorder) -> None:
    yard.load()
    # One node of each leaf, though a leaf would have held both.
    yard.submit("apart", parallelism={"tp": 8, "pp": 2}, nodes=["a1", "c1"])
    yard.cycle()
    recorder.sample()
    text = yard.call("GET", "/metrics").text
    assert "podyard_gangs_measured 1.0" in text
    assert 'podyard_gang_spread_ratio{level="leaf",stat="max"} 2.0' in text
    assert 'podyard_gang_regret_ratio{stat="mean"}' in text
    yard.report_all("succeeded", 0)
    recorder.sample()
    assert "podyard_gangs_measured 0.0" in yard.call("GET", "/metrics").text


def test_copy_of_the_world_keeps_up_between_samples(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is there to read it for before the first question."""
    news: list[bool] = []
    monkeypatch.setattr("api.http.reader.follow", lambda *of: news.append(follow(*of)))
    yard.load()
    reader = Reader(yard.database)
    reader.keep_up()
    reader.ask(lambda _world: None)
    assert news == []
    yard.submit("j", parallelism={"tp": 8})
    reader.keep_up()
    reader.ask(lambda _world: None)
    assert news == [True, False]


def test_others_have_their_turn_between_two_gangs(yard: Yard, recorder: Recorder) -> None:
    yard.load()
    for name in ("a", "b", "c"):
        yard.submit(name, parallelism={"tp": 8})
    yard.cycle()
    rests = list[float]()
    worked_s = recorder.quality.look(yard.app.service, rests.append)
    assert recorder.quality.known == len(rests) == 3
    assert 0 < sum(rests) <= REST * worked_s


def test_longest_wait_is_of_the_oldest_gang_that_nobody_holds(
    yard: Yard, recorder: Recorder
) -> None:
    yard.load()
    recorder.sample()
    for name, waited_s in (("held", 20), ("old", 20), ("young", 5)):
        yard.submit(name, parallelism={"tp": 8, "pp": 500}, if_never_fits="wait")
        yard.cycle()
        yard.ok("POST", "/v1/test/clock", {"advance_s": waited_s})
    yard.ok("POST", "/v1/namespaces/default/jobs/held/hold", {})
    yard.cycle()
    recorder.sample()
    found = series(yard, "?names=oldest_wait_s")["series"]["oldest_wait_s"]
    assert found["mean"][-1] == 25.0


@pytest.mark.parametrize("query", ["?span_s=1", "?span_s=x", "?names=%00", "?names=a%20b", "?n=1"])
def test_bad_question_of_series_is_refused(any_yard: Yard, query: str) -> None:
    assert any_yard.call("GET", f"/v1/series{query}").status_code == 422


def test_points_are_thinned_with_age(yard: Yard) -> None:
    for minute in range(0, 3 * 60, 5):
        note(yard.database, {"x": float(minute)}, now_s=START_S + 60 * minute)
    end_s = START_S + 3 * 3_600
    fine = read(yard.database, span_s=3_600, now_s=end_s)
    assert (fine.step_s, len(fine.times)) == (15, 12)
    coarse = read(yard.database, span_s=86_400 * 7, now_s=end_s)
    assert coarse.step_s == 600
    assert coarse.points["x"][0] == (2, 5.0, 0.0, 5.0)
    hours = read(yard.database, span_s=86_400 * 300, now_s=end_s)
    assert [p and p[0] for p in hours.points["x"]] == [12, 12, 12]
    # The points of 15 s from more than two hours ago are gone.
    assert min(read(yard.database, span_s=7_200, now_s=end_s).times) > START_S


def test_answer_is_never_too_long() -> None:
    for span_s in (60, 3_600, 7_200, 86_400, 14 * 86_400, 365 * 86_400):
        found = tier_for(span_s)
        assert span_s / found.step_s <= 2_000 or found is TIERS[-1]


def test_queues_without_end_share_one_label() -> None:
    metrics = Metrics()
    for number in range(QUEUES_MAX + 5):
        metrics.observe_wait(f"q{number}", 1.0)
    text = metrics.text().decode()
    assert f'podyard_queue_wait_seconds_count{{queue="{OTHER}"}} 5.0' in text
    assert text.count("podyard_queue_wait_seconds_count{") == QUEUES_MAX + 1


def test_audit_counts_what_is_wrong_with_the_ledger(yard: Yard, recorder: Recorder) -> None:
    yard.load()
    recorder.audit()
    assert "podyard_ledger_faults 0.0" in yard.call("GET", "/metrics").text
    execute(yard.database, "UPDATE node_usage SET pods = 3 WHERE node = 'a1'")
    recorder.audit()
    text = yard.call("GET", "/metrics").text
    assert "podyard_ledger_faults 1.0" in text
    assert "podyard_parts_aside 1.0" in text


def test_node_that_an_audit_finds_wrong_takes_nothing_new_until_it_agrees(
    yard: Yard, recorder: Recorder
) -> None:
    yard.load()
    execute(yard.database, "UPDATE node_usage SET gpu_mask_used = 1 WHERE node = 'a1'")
    recorder.audit()
    said = "node 'a1': gpu_mask_used is 1, pods say 0"
    assert yard.ok("GET", "/v1/nodes/a1")["mismatch"] == said
    assert yard.ok("GET", "/v1/overview")["aside"] == {"mismatch": 1}
    yard.submit("big", roles=[{"name": "m", "replicas": 12, "gpus": 8}])
    yard.submit("small", roles=[{"name": "m", "replicas": 11, "gpus": 8}])
    yard.cycle()
    aside = yard.ok("GET", "/v1/namespaces/default/jobs/big/explain")["set_aside"]
    assert isinstance(aside, dict)
    assert aside["mismatch"] == 1
    assert "a1" not in {pod["node"] for pod in yard.items("/v1/pods")}
    (told,) = (e for e in yard.items("/v1/events") if e["kind"] == "node.mismatch")
    assert said in str(told["message"])
    mend(yard.database, now_s=yard.clock.now_s())
    recorder.audit()
    assert yard.ok("GET", "/v1/nodes/a1")["mismatch"] == ""
    assert "podyard_parts_aside 0.0" in yard.call("GET", "/metrics").text


def test_pod_that_the_decision_log_has_elsewhere_sets_both_nodes_aside(
    database: Database, contract: Contract
) -> None:
    clock = ManualClock()
    log = DecisionLog(database, keep=100, keep_bytes=1 << 24)
    runner = Runner(database, clock, decisions=log)
    with Yard(database, contract, clock) as yard:
        recorder = Recorder(yard.app.service)
        yard.load()
        yard.submit("j", parallelism={"tp": 8}, nodes=["a1"])
        settle(runner)
        recorder.audit(with_log=True)
        assert yard.ok("GET", "/v1/nodes/a1")["mismatch"] == ""
        execute(database, "UPDATE pods SET node = 'c4'")
        recorder.audit(with_log=True)
        said = str(yard.ok("GET", "/v1/nodes/c4")["mismatch"])
        assert "is on node 'c4' with GPUs 0,1,2,3,4,5,6,7" in said
        assert yard.ok("GET", "/v1/nodes/a1")["mismatch"] == said
        assert yard.ok("GET", "/v1/nodes/a2")["mismatch"] == ""
    runner.stop()
