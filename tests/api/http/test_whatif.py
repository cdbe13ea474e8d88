"""Jobs and changes on a copy of the cluster."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.http import whatif as whatif_route
from api.http.supposing import FIELDS as WHATIF_FIELDS
from tests.api.http.test_explain import full
from tests.api.http.yard import RACKS, Yard, only_sees

RACK = {"name": "new", "parallelism": {"tp": 8, "pp": 4}}
SETS = (
    RACKS
    + """\
sets:
  power: {shelf-1: ["a[1-2]", b1]}
"""
)


def whatif(yard: Yard, **body: object) -> dict[str, Any]:
    return yard.ok("POST", "/v1/whatif", body)


def effects(found: dict[str, Any]) -> dict[str, str]:
    return {entry["job"]: entry["effect"] for entry in found["affected"]}


def state_of(yard: Yard) -> tuple[object, ...]:
    """All that a what-if may not change."""
    jobs = [(j["name"], j["state"], j["revision"]) for j in yard.items("/v1/jobs")]
    nodes = [(n["name"], n["revision"], n["gpus_free"]) for n in yard.items("/v1/nodes")]
    return yard.ok("GET", "/v1/jobs")["revision"], jobs, nodes


def test_job_that_is_supposed_is_placed_and_nothing_is_written(yard: Yard) -> None:
    yard.load()
    before = state_of(yard)
    found = whatif(yard, jobs=[RACK])
    (job,) = found["jobs"]
    assert (job["job"], job["state"], job["never"]) == ("default/new", "bound", False)
    assert (job["placement"]["pods"], job["placement"]["gpus"]) == (4, 32)
    assert job["placement"]["domains"]["rack"] == {"count": 1, "names": ["r3"]}
    assert found["settled"] is True
    assert found["gpus_before"] == {"total": 96, "used": 0, "free": 96}
    assert found["gpus_after"] == {"total": 96, "used": 32, "free": 64}
    assert state_of(yard) == before


def test_jobs_of_one_request_stand_in_line_in_order_of_priority(yard: Yard) -> None:
    yard.load()
    large = {"name": "low", "parallelism": {"tp": 8, "dp": 9}}
    found = whatif(yard, jobs=[large, large | {"name": "high", "priority": 5}])
    assert [job["state"] for job in found["jobs"]] == ["pending", "bound"]
    assert found["jobs"][0]["reason"] == "room"
    assert "the cluster lacks 6 nodes" in found["jobs"][0]["message"]


def test_job_that_never_fits_says_so(yard: Yard) -> None:
    yard.load()
    found = whatif(yard, jobs=[{"name": "new", "parallelism": {"tp": 8, "dp": 13}}])
    assert (found["jobs"][0]["never"], found["jobs"][0]["placement"]) == (True, None)


def test_drained_node_moves_its_gang_where_there_is_room(yard: Yard) -> None:
    yard.load()
    yard.submit(parallelism={"tp": 8, "pp": 2})
    yard.cycle()
    node = yard.items("/v1/pods")[0]["node"]
    found = whatif(yard, changes=[{"kind": "drain", "nodes": [node]}])
    assert effects(found) == {"default/job": "moved"}
    assert node not in found["affected"][0]["placement"]["domains"]["node"]["names"]


def test_lost_leaf_stops_the_gangs_that_find_no_other_place(yard: Yard) -> None:
    full(yard)
    found = whatif(yard, changes=[{"kind": "lose_switch", "level": "leaf", "domain": "l2"}])
    assert found["effects"] == {"stopped": 1}
    (entry,) = found["affected"]
    assert (entry["gpus"], entry["placement"]) == (32, None)


def test_lost_set_takes_the_nodes_of_a_named_set(yard: Yard) -> None:
    yard.load(SETS)
    yard.submit(parallelism={"tp": 8, "dp": 12})
    yard.cycle()
    found = whatif(yard, changes=[{"kind": "lose_set", "set_kind": "power", "set": "shelf-1"}])
    assert found["effects"] == {"recovering": 1}
    assert found["affected"][0]["placement"]["gpus"] == 72


def test_job_that_finishes_makes_room_for_one_that_waits(yard: Yard) -> None:
    full(yard)
    yard.submit("waits", parallelism={"tp": 8, "pp": 4})
    yard.cycle()
    found = whatif(yard, changes=[{"kind": "finish", "job": "old-1"}])
    assert effects(found) == {"default/old-1": "ended", "default/waits": "started"}
    found = whatif(yard, changes=[{"kind": "cancel", "job": "default/old-0"}])
    assert effects(found) == {"default/old-0": "ended", "default/waits": "started"}


def test_added_nodes_hold_what_did_not_fit(yard: Yard) -> None:
    full(yard)
    added = {"names": "d[1-4]", "type": "small", "places": {"rack": "r4", "leaf": "l2"}}
    found = whatif(yard, jobs=[RACK], changes=[{"kind": "add_nodes", "add": [added]}])
    assert found["jobs"][0]["placement"]["domains"]["rack"] == {"count": 1, "names": ["r4"]}
    assert found["gpus_after"]["total"] == 128


def test_removed_nodes_take_their_pods_with_them(yard: Yard) -> None:
    full(yard)
    found = whatif(yard, changes=[{"kind": "remove_nodes", "nodes": ["c[1-4]"]}])
    assert found["effects"] == {"stopped": 1}
    assert found["gpus_after"] == {"total": 64, "used": 64, "free": 0}


def test_cordoned_and_uncordoned_nodes_change_what_fits(yard: Yard) -> None:
    yard.load()
    for node in ("a1", "b1", "c1"):
        yard.ok("POST", f"/v1/nodes/{node}/cordon", {})
    rule = [{"group": "pp", "within": "rack", "mode": "required"}]
    job = RACK | {"topology": rule}
    assert whatif(yard, jobs=[job])["jobs"][0]["state"] == "pending"
    lifted = [{"kind": "uncordon", "nodes": ["b1"]}]
    assert whatif(yard, jobs=[job], changes=lifted)["jobs"][0]["state"] == "bound"
    both = [*lifted, {"kind": "cordon", "nodes": ["b2"]}]
    assert whatif(yard, jobs=[job], changes=both)["jobs"][0]["state"] == "pending"


def test_priority_lets_a_waiting_job_go_first(yard: Yard) -> None:
    full(yard)
    for name in ("first", "second"):
        yard.submit(name, parallelism={"tp": 8, "pp": 4}, preemptible=False)
    yard.cycle()
    changes = [
        {"kind": "finish", "job": "old-2"},
        {"kind": "priority", "job": "second", "priority": 1},
        {"kind": "priority", "job": "old-0", "priority": 1},
        {"kind": "priority", "job": "old-1", "priority": 1},
    ]
    assert effects(whatif(yard, changes=changes))["default/second"] == "started"


def test_jobs_of_other_tenants_are_told_as_numbers(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(yard)
    only_sees(monkeypatch, "mine")
    found = whatif(yard, changes=[{"kind": "lose_switch", "level": "leaf", "domain": "l2"}])
    assert (found["affected"], found["hidden"], found["effects"]) == ([], 1, {"stopped": 1})
    told = yard.refused(
        422, "POST", "/v1/whatif", {"changes": [{"kind": "finish", "job": "old-1"}]}
    )
    assert told == {"changes[0].job": "job 'default/old-1' does not exist or has ended"}


def test_nothing_supposed_is_nothing_that_happens(any_yard: Yard) -> None:
    found = whatif(any_yard)
    assert (found["jobs"], found["affected"], found["effects"]) == ([], [], {})


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"kind": "drain"}, "nodes", "is required by a change of kind drain"),
        ({"kind": "drain", "nodes": ["zz"]}, "nodes[0]", "node 'zz' does not exist"),
        ({"kind": "drain", "nodes": ["a1", "a[1-"]}, "nodes[1]", ""),
        ({"kind": "drain", "nodes": ["a1"], "queue": "default"}, "queue", "has only nodes"),
        ({"kind": "lose_node", "nodes": ["n[1-999999]"]}, "nodes[0]", ""),
        ({"kind": "lose_switch"}, "", "level and domain, or set_kind and set"),
        ({"kind": "lose_switch", "level": "pod", "domain": "x"}, "level", "leaf, rack, node"),
        ({"kind": "lose_switch", "level": "leaf", "domain": "l9"}, "domain", "no leaf 'l9'"),
        ({"kind": "lose_set", "set_kind": "power", "set": "x"}, "set_kind", "'power'"),
        ({"kind": "finish", "job": "nobody"}, "job", "does not exist or has ended"),
        ({"kind": "priority", "job": "nobody"}, "priority", "is required"),
        ({"kind": "quota", "queue": "nosuch", "quota_gpus": 1}, "queue", "does not exist"),
        ({"kind": "quota", "queue": "default"}, "", "quota_gpus, limit_gpus or both"),
        (
            {"kind": "quota", "queue": "default", "quota_gpus": 9, "limit_gpus": 8},
            "quota_gpus",
            "above the queue's limit of 8",
        ),
        (
            {"kind": "add_nodes", "add": [{"names": "a1", "type": "small"}]},
            "add[0].names",
            "there already",
        ),
        (
            {"kind": "add_nodes", "add": [{"names": "d1", "type": "tiny"}]},
            "add[0].type",
            "there is no node type 'tiny'",
        ),
        (
            {"kind": "add_nodes", "add": [{"names": "d[1-20001]", "type": "small"}]},
            "add[0].names",
            "more than 20000 nodes",
        ),
        (
            {"kind": "add_nodes", "add": [{"names": "d1", "type": "small", "places": {"x": "y"}}]},
            "add[0].places.x",
            "leaf, rack",
        ),
    ],
)
def test_change_that_names_what_is_not_there_is_refused_by_its_field(
    any_yard: Yard, change: dict[str, object], path: str, words: str
) -> None:
    told = any_yard.refused(422, "POST", "/v1/whatif", {"changes": [change]})
    at = f"changes[0].{path}" if path else "changes[0]"
    assert words in told[at], told


@pytest.mark.parametrize(
    "body",
    [
        {"jobs": [RACK] * 101},
        {"changes": [{"kind": "cordon", "nodes": ["a1"]}] * 1_001},
        {"changes": [{"kind": "explode"}]},
        {"changes": [{"kind": "drain", "nodes": "a1"}]},
        {"changes": [{"kind": "priority", "job": "x", "priority": 10**12}]},
        {"changes": [{"kind": "quota", "queue": "default", "quota_gpus": -1}]},
        {"changes": [{"kind": "quota", "queue": "default", "quota_gpus": 0.5}]},
        {"changes": [{"kind": "finish", "job": "a/b/c"}]},
        {"jobs": [{"name": "x"}]},
        {"job": RACK},
        [],
    ],
)
def test_body_that_is_too_large_or_ill_formed_is_refused(any_yard: Yard, body: object) -> None:
    answer = any_yard.call("POST", "/v1/whatif", body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"]


NAMES = st.sampled_from(
    ["a1", "a[1-3]", "zz", "", "a[", "l1", "r1", "default", "job", "x/y", "\x00"]
)
WORDS = "nodes level domain set_kind set add queue quota_gpus limit_gpus job priority kind more"
FIELDS = st.dictionaries(
    st.sampled_from(WORDS.split()),
    NAMES
    | st.lists(NAMES, max_size=3)
    | st.integers(-2, 2**63)
    | st.floats()
    | st.none()
    | st.lists(
        st.fixed_dictionaries(
            {"names": NAMES, "type": st.sampled_from(["small", "hgx-h100", "no"])},
            optional={"places": st.dictionaries(NAMES, NAMES | st.none(), max_size=2)},
        ),
        max_size=2,
    ),
    max_size=4,
)
KINDS = st.sampled_from([*WHATIF_FIELDS, "explode", "", None])


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(KINDS, FIELDS), max_size=3))
def test_no_change_whatever_its_fields_is_a_fault_of_the_service(
    any_yard: Yard, parts: list[tuple[str | None, dict[str, object]]]
) -> None:
    changes = [{**fields, "kind": kind} for kind, fields in parts]
    content = json.dumps({"changes": changes})
    answer = any_yard.call(
        "POST", "/v1/whatif", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in {200, 400, 422}, answer.text


def test_more_what_ifs_than_a_few_are_told_to_come_back(any_yard: Yard) -> None:
    taken = [whatif_route._FEW.acquire(blocking=False) for _ in range(5)]
    assert all(taken)
    try:
        answer = any_yard.call("POST", "/v1/whatif", {})
    finally:
        for _ in taken:
            whatif_route._FEW.release()
    assert answer.status_code == 503
    assert "wait already" in answer.text


def test_problem_of_a_supposed_job_is_told_by_its_path(any_yard: Yard) -> None:
    jobs = [RACK, RACK | {"topology": [{"group": "pp", "within": "moon"}]}]
    told = any_yard.refused(422, "POST", "/v1/whatif", {"jobs": jobs})
    assert list(told) == ["jobs[1].topology[0].within"]


def test_jobs_that_are_too_large_together_are_refused(any_yard: Yard) -> None:
    half = {"name": "x", "parallelism": {"tp": 8, "dp": 62_501}}
    told = any_yard.refused(422, "POST", "/v1/whatif", {"jobs": [half, half]})
    assert told == {"jobs": "found 1000016 ranks in all; at most 1000000 are allowed"}


def test_job_that_waits_cannot_finish(yard: Yard) -> None:
    yard.load()
    yard.submit()
    told = yard.refused(422, "POST", "/v1/whatif", {"changes": [{"kind": "finish", "job": "job"}]})
    assert "is pending and cannot finish" in told["changes[0].job"]
