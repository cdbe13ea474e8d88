"""What dashboards poll: overview, map, series; ETags, 304, changes since a revision."""

import gzip
import json
import threading
from typing import Any

import pytest

from api.http import polling, sight
from api.http.sight import Paced
from tests.api.http.yard import Yard


def overview(yard: Yard) -> dict[str, Any]:
    return yard.ok("GET", "/v1/overview")


def drawing(yard: Yard, query: str = "") -> dict[str, Any]:
    return yard.ok("GET", f"/v1/map{query}")


def test_overview_is_not_sent_again_while_nothing_changes(yard: Yard) -> None:
    yard.load()
    first = yard.call("GET", "/v1/overview")
    etag = first.headers["etag"]
    again = yard.client.get("/v1/overview", headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    yard.submit()
    changed = yard.call("GET", "/v1/overview", headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag


@pytest.mark.parametrize("named", ['W/"x", {}', "*", "W/{}"])
def test_etag_may_be_one_of_several_or_weak(yard: Yard, named: str) -> None:
    etag = yard.call("GET", "/v1/overview").headers["etag"]
    match = {"If-None-Match": named.format(etag)}
    assert yard.client.get("/v1/overview", headers=match).status_code == 304


def test_overview_counts_levels_waits_and_power(yard: Yard) -> None:
    yard.load()
    yard.submit("placed", parallelism={"tp": 4}, gpus_per_pod=4, nodes=["a1"])
    yard.submit("waits", parallelism={"tp": 8, "pp": 13}, if_never_fits="wait")
    yard.cycle()
    yard.ok("POST", "/v1/nodes/b1/cordon", {})
    found = overview(yard)
    by_level = {level["level"]: level for level in found["levels"]}
    assert by_level["rack"] == {
        "level": "rack",
        "empty": 2,
        "partly": 1,
        "full": 0,
        # Of 84 free GPUs, 28 lie in the rack that holds a pod.
        "fragmentation": 0.3333,
    }
    assert by_level["node"]["full"] == 1
    (waits,) = found["waiting"]
    assert (waits["gangs"], waits["gpus"], waits["job"]) == (1, 104, "default/waits")
    assert waits["message"]
    assert found["power"] == {"used_kw": 10.0, "total_kw": 120.0}
    assert found["scheduler"] is None


def test_overview_is_small_and_sent_packed_where_that_is_taken(yard: Yard) -> None:
    yard.load()
    plain = yard.client.get("/v1/overview", headers={"Accept-Encoding": "identity"})
    assert len(plain.content) < 50_000
    assert "content-encoding" not in plain.headers
    with yard.client.stream("GET", "/v1/overview", headers={"Accept-Encoding": "gzip"}) as packed:
        if packed.headers.get("content-encoding") == "gzip":
            raw = b"".join(packed.iter_raw())
            assert json.loads(gzip.decompress(raw)) == plain.json()


def test_map_tells_of_every_node_and_who_is_there(yard: Yard) -> None:
    yard.load()
    yard.submit("j", parallelism={"tp": 8, "pp": 2}, nodes=["a1", "a2"])
    yard.cycle()
    yard.ok("POST", "/v1/nodes/b1/cordon", {})
    found = drawing(yard)
    assert found["nodes"][:2] == ["a1", "a2"]
    assert found["levels"] == [
        {"name": "leaf", "names": ["l1", "l2"], "ends": [8, 12]},
        {"name": "rack", "names": ["r1", "r2", "r3"], "ends": [4, 8, 12]},
    ]
    (job,) = found["jobs"]
    assert (job["job"], job["state"], job["gpus"]) == ("default/j", "bound", 16)
    assert found["use"] == [
        [0, "", job["id"], "ff", 0],
        [1, "", job["id"], "ff", 8],
        [4, "cordoned"],
    ]


def test_map_since_a_revision_tells_what_changed_alone(yard: Yard) -> None:
    yard.load()
    yard.submit("first", parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    whole = drawing(yard)
    yard.submit("second", parallelism={"tp": 8}, nodes=["c4"])
    yard.cycle()
    yard.ok("POST", "/v1/nodes/b1/cordon", {})
    found = drawing(yard, f"?since={whole['revision']}")
    assert (found["since"], found["nodes"], found["levels"]) == (whole["revision"], [], [])
    assert [job["job"] for job in found["jobs"]] == ["default/second"]
    assert [use[0] for use in found["use"]] == [4, 11]
    yard.report_all("succeeded", 0)
    last = drawing(yard, f"?since={found['revision']}")
    assert sorted(use[0] for use in last["use"]) == [0, 11]
    assert all(use[1:] == [""] for use in last["use"])


def test_map_is_told_whole_after_a_new_inventory(yard: Yard) -> None:
    yard.load()
    before = drawing(yard)
    yard.load("levels: [rack, node]\nnodes:\n  - {names: z1, type: hgx-h100, rack: r9}\n")
    found = drawing(yard, f"?since={before['revision']}")
    assert found["since"] is None
    assert "z1" in found["nodes"]


def test_map_from_a_revision_ahead_is_refused(yard: Yard) -> None:
    yard.load()
    assert "ahead" in yard.refused(400, "GET", "/v1/map?since=1000000")[""]
    assert yard.call("GET", "/v1/map?since=-1").status_code == 422


def test_map_is_not_sent_again_by_events_that_are_not_to_be_seen(yard: Yard) -> None:
    yard.load()
    etag = yard.call("GET", "/v1/map").headers["etag"]
    yard.submit("waits", parallelism={"tp": 8})
    again = yard.client.get("/v1/map", headers={"If-None-Match": etag})
    assert again.status_code == 304


def test_answer_that_was_dear_is_used_for_a_while() -> None:
    pace = Paced()
    assert not pace.is_current(0)
    pace.note(4, took_s=1.0, nodes=5_000)
    assert not pace.is_current(5), "the first one read the whole world"
    pace.note(5, took_s=1.0, nodes=5_000)
    assert pace.is_current(6)
    small = Paced(revision=4)
    small.note(5, took_s=1.0, nodes=500)
    assert not small.is_current(6)
    quick = Paced(revision=5, checked_s=pace.checked_s, rests_until_s=0.0)
    assert quick.is_current(5)
    assert not quick.is_current(6)


def test_answer_for_metrics_is_never_sent_to_dashboards(yard: Yard) -> None:
    """They are made without what the scheduler does just now."""
    yard.load()
    service = yard.app.service
    assert "scheduler" not in polling.overview(service)
    assert "scheduler" in overview(yard)


def test_large_overview_is_told_at_once_and_made_anew_beside(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "LARGE_NODES", 10)
    monkeypatch.setattr(sight, "REST", 0)
    monkeypatch.setattr(sight, "AGE_S", 3_600.0)
    yard.load()
    service, free = yard.app.service, overview(yard)["gpus"]["free"]
    made = threading.Event()
    real = service.sight._make

    def make(*args: Any) -> Any:  # noqa: ANN401 - passed on as they are
        answer = real(*args)
        made.set()
        return answer

    monkeypatch.setattr(service.sight, "_make", make)
    yard.submit("j", parallelism={"tp": 8})
    yard.cycle()
    first = overview(yard)["gpus"]["free"]
    assert first in {free, free - 8}
    for _ in range(100):
        made.wait(5)
        made.clear()
        if overview(yard)["gpus"]["free"] == free - 8:
            break
    else:
        pytest.fail("the answer was never made anew")
    service.sight.close()


def test_metrics_tell_of_waits_levels_and_nodes(yard: Yard) -> None:
    yard.load()
    yard.submit("waits", parallelism={"tp": 8})
    yard.ok("POST", "/v1/nodes/b1/cordon", {})
    text = yard.call("GET", "/metrics").text
    for line in (
        'podyard_waiting_gangs{reason="new"} 1.0',
        'podyard_waiting_gpus{reason="new"} 8.0',
        'podyard_nodes{standing="cordoned"} 1.0',
        'podyard_nodes{standing="usable"} 11.0',
        'podyard_level_domains{fill="empty",level="rack"} 3.0',
        'podyard_level_fragmentation_ratio{level="rack"} 0.0',
        "podyard_database_up 1.0",
        "podyard_scheduler_paused 0.0",
    ):
        assert line in text


def test_overview_tells_of_open_faults(yard: Yard) -> None:
    yard.load()
    assert overview(yard)["faults"] == {"open": {}, "newest": []}
    fault = yard.ok("POST", "/v1/nodes/a1/faults", {"xid": 79, "message": "fell off the bus"})
    found = overview(yard)["faults"]
    assert sum(found["open"].values()) == 1
    assert (found["newest"][0]["node"], found["newest"][0]["message"]) == ("a1", "fell off the bus")
    assert f'podyard_open_faults{{action="{found["newest"][0]["action"]}"}} 1.0' in (
        yard.call("GET", "/metrics").text
    )
    yard.call("DELETE", f"/v1/nodes/a1/faults/{fault['id']}")
    assert overview(yard)["faults"]["newest"] == []


def test_watch_may_be_paced(yard: Yard) -> None:
    yard.load()
    text = yard.client.get("/v1/watch?since=0&pace_s=0.2&timeout_s=0.3").text
    assert "id: 1\n" in text
    assert yard.call("GET", "/v1/watch?pace_s=-1").status_code == 422
    assert yard.call("GET", "/v1/watch?pace_s=61").status_code == 422
