"""Volcano's scheduler asks; its gangs go where Podyard would put them."""

import json
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.k8s.extender.reading import MalformedRequest, read_tree
from api.k8s.extender.volcano import VolcanoExtender
from scheduler.cluster.nodes import Held, NodeTable
from scheduler.cluster.trial import Trial
from scheduler.model.job import JobSpec, Role
from scheduler.model.node import Inventory
from scheduler.model.placement import NoFit
from scheduler.model.resources import Resources, full_mask
from scheduler.place.search import place
from scheduler.topology.build import build
from tests.api.http.yard import Yard
from tests.builders import make_cluster

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
GIB = 1024**3


def node(name: str, *, rack: str, gpus: int = 8, idle: int | None = None) -> Json:
    """A `NodeInfo` of the scheduler, as Go writes it: no tags, so the names of its fields."""
    whole: Json = {"MilliCPU": 64_000.0, "Memory": 512.0 * GIB, "MaxTaskNum": 110}
    whole |= {"ScalarResources": {GPU: gpus * 1_000.0, "pods": 110}}
    left = whole | {"ScalarResources": {GPU: (gpus if idle is None else idle) * 1_000.0}}
    amounts = {"cpu": "64", "memory": "512Gi", GPU: str(gpus), "pods": "110"}
    labels = {"network.topology.nvidia.com/leaf": rack, "kubernetes.io/hostname": name}
    return {
        "Name": name,
        "Node": {
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": amounts, "capacity": amounts},
        },
        "Idle": left,
        "Allocatable": whole,
    }


def task(name: str, job: str = "ns/pg", *, gpus: int = 8, status: int = 1) -> Json:
    return {
        "UID": f"uid-{name}",
        "Job": job,
        "Name": name,
        "Namespace": "ns",
        "TaskRole": "worker",
        "Status": status,
        "Resreq": {"MilliCPU": 1_000.0, "Memory": GIB, "ScalarResources": {GPU: gpus * 1_000.0}},
        "Pod": {"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}]}},
    }


def job(count: int, uid: str = "ns/pg", **fields: Any) -> Json:  # noqa: ANN401  # any JSON
    tasks = [task(f"{uid.rpartition('/')[2]}-{i}", uid) for i in range(count)]
    return {
        "UID": uid,
        "Name": "pg",
        "Namespace": "ns",
        "Queue": "default",
        "MinAvailable": count,
        "Tasks": {item["UID"]: item for item in tasks},
        "TaskMinAvailable": {},
        "Allocated": {"MilliCPU": 0, "Memory": 0, "ScalarResources": None},
    } | fields


NODES = [node(f"a{i}", rack="s0") for i in range(4)] + [node(f"b{i}", rack="s1") for i in range(4)]


def opened(*jobs: Json, nodes: list[Json] | None = None) -> VolcanoExtender:
    """A session with these jobs on these nodes."""
    made = VolcanoExtender(lambda: build(Inventory("", ("node",), "node", {}, ())).topology)
    made.answer(
        "onSessionOpen",
        {
            "Jobs": {item["UID"]: item for item in jobs},
            "Nodes": {item["Name"]: item for item in nodes or NODES},
            "Queues": {},
            "NamespaceInfo": {},
            "NodeList": None,
        },
    )
    return made


def places(extender: VolcanoExtender, found: Json, nodes: list[Json] | None = None) -> Json:
    """Node of each task, as the scheduler finds it by asking for each pair."""
    chosen: Json = {}
    for item in found["Tasks"].values():
        fits = [
            n["Name"]
            for n in nodes or NODES
            if extender.answer("predicate", {"task": item, "node": n})["code"] == 0
        ]
        chosen[item["Name"]] = fits[0] if len(fits) == 1 else fits
    return chosen


def test_gang_of_four_lies_in_one_rack() -> None:
    nodes = [n if n["Name"] != "a1" else node("a1", rack="s0", idle=0) for n in NODES]
    found = places(opened(job(4), nodes=nodes), job(4), nodes)
    assert {name[0] for name in found.values()} == {"b"}
    assert len(set(found.values())) == 4


def test_ring_of_five_crosses_twice() -> None:
    found = places(opened(job(5)), job(5))
    sides = [found[f"pg-{i}"][0] for i in range(5)]
    assert sum(sides[i] != sides[(i + 1) % 5] for i in range(5)) == 2


def test_second_gang_takes_what_the_first_has_left() -> None:
    first, second = job(3), job(3, "ns/other")
    extender = opened(first, second)
    taken = {*places(extender, first).values(), *places(extender, second).values()}
    assert len(taken) == 6


def test_gang_without_room_fits_nowhere_and_says_why() -> None:
    extender = opened(job(9))
    answer = extender.answer("predicate", {"task": task("pg-0"), "node": NODES[0]})
    assert answer["code"] == 2
    assert "9" in str(answer["status"])


def test_gang_above_its_minimum_starts_with_its_minimum() -> None:
    elastic = job(12) | {"MinAvailable": 4}
    found = places(opened(elastic), elastic)
    placed = [name for name in found.values() if name]
    assert len(placed) == 4
    assert len({name[0] for name in placed}) == 1


def test_hard_tier_is_kept() -> None:
    rule = {"mode": "hard", "highestTierAllowed": 1}
    extender = opened(job(5, NetworkTopology=rule))
    answer = extender.answer("predicate", {"task": task("pg-0"), "node": NODES[0]})
    assert answer["code"] == 2


def _growing(count: int, *there: str, **fields: Any) -> Json:  # noqa: ANN401  # any JSON
    """A gang of which some members run already."""
    gang = job(count + len(there), MinAvailable=len(there), **fields)
    for index, name in enumerate(there):
        gang["Tasks"][f"uid-pg-{index}"] |= {"Status": 32, "NodeName": name}
    return gang


def _joining(gang: Json, nodes: list[Json]) -> list[Any]:
    found = places(opened(gang, nodes=nodes), gang, nodes)
    waiting = [task for task in gang["Tasks"].values() if task["Status"] == 1]
    return [found[task["Name"]] for task in waiting]


def test_members_that_join_go_near_those_that_run() -> None:
    nodes = [n if n["Name"] != "b0" else node("b0", rack="s1", idle=0) for n in NODES]
    assert {name[0] for name in _joining(_growing(2, "b0"), nodes)} == {"b"}


def test_members_that_join_go_elsewhere_only_if_no_rule_forbids_it() -> None:
    nodes = [n if n["Name"][0] != "b" else node(n["Name"], rack="s1", idle=0) for n in NODES]
    assert {name[0] for name in _joining(_growing(2, "b0"), nodes)} == {"a"}
    rule = {"mode": "hard", "highestTierAllowed": 1}
    assert _joining(_growing(2, "b0", NetworkTopology=rule), nodes) == [[], []]


def test_planned_node_scores_highest() -> None:
    extender, gang = opened(job(2)), job(2)
    planned = places(extender, gang)["pg-0"]
    answer = extender.answer("prioritize", {"task": task("pg-0"), "nodes": NODES})
    scores = answer["nodeScore"]
    assert isinstance(scores, dict)
    assert max(scores, key=lambda name: scores[name]) == planned
    assert len(scores) == 8


def test_other_hooks_are_answered() -> None:
    extender = opened(job(4), job(99, "ns/huge"))
    assert extender.answer("jobEnqueueable", {"job": job(4)}) == {"status": 1}
    assert extender.answer("jobEnqueueable", {"job": job(99, "ns/huge")}) == {"status": -1}
    evictor = {"evictor": task("x"), "evictees": [task("y")]}
    assert extender.answer("preemptable", evictor) == {"status": 0, "victims": []}
    assert extender.answer("reclaimable", evictor) == {"status": 0, "victims": []}
    assert extender.answer("allocateFunc", {"task": task("x")}) == {"errorMessage": ""}
    assert extender.answer("jobEnqueued", {"job": job(1)}) == {}
    half = job(2)
    half["Tasks"]["uid-pg-0"]["Status"] = 32
    assert extender.answer("jobReady", {"job": half}) == {"status": False}
    assert extender.answer("jobReady", {"job": half | {"MinAvailable": 1}}) == {"status": True}
    assert extender.answer("onSessionClose", {}) == {}


def test_queue_that_uses_all_its_gpus_is_overused() -> None:
    used = {"ScalarResources": {GPU: 16_000.0}}
    extender = opened(job(1, Allocated=used))
    for limit, overused in (("16", True), ("17", False), (None, False)):
        spec = {} if limit is None else {"capability": {GPU: limit}}
        queue = {"UID": "default", "Name": "default", "Queue": {"spec": spec}}
        assert extender.answer("queueOverused", {"queue": queue}) == {"overused": overused}


def test_without_a_session_nothing_is_refused() -> None:
    extender = VolcanoExtender(lambda: build(Inventory("", ("node",), "node", {}, ())).topology)
    answer = extender.answer("predicate", {"task": task("x"), "node": NODES[0]})
    assert answer == {"status": "", "code": 0}
    assert extender.answer("jobEnqueueable", {"job": job(1)}) == {"status": 0}


def test_keys_are_read_in_any_case_and_infinity_is_a_number() -> None:
    gang = job(4)
    lower = json.loads(json.dumps(gang).replace("Tasks", "tasks").replace("Resreq", "resreq"))
    endless = [n | {"Idle": n["Idle"] | {"MilliCPU": 1.797e308}} for n in NODES]
    extender = opened(lower, nodes=endless)
    assert len(set(places(extender, gang, endless).values())) == 4


def test_extender_is_reached_over_http(yard: Yard) -> None:
    def post(verb: str, body: object) -> httpx2.Response:
        return yard.client.post(f"/extender/volcano/{verb}", json=body)

    session = {"Jobs": {"ns/pg": job(2)}, "Nodes": {n["Name"]: n for n in NODES}}
    assert post("onSessionOpen", session).json() == {}
    answer = post("predicate", {"task": task("pg-0"), "node": NODES[0]})
    assert answer.status_code == 200
    assert answer.json()["code"] in (0, 2)
    assert post("predicate", {"task": 3}).status_code == 400
    assert post("predicate", [1]).status_code == 400
    assert post("nothing", {}).status_code == 404
    assert yard.client.get("/extender/volcano/predicate").status_code == 405


def test_inventory_of_the_service_tells_places_that_labels_do_not(yard: Yard) -> None:
    yard.load()
    bare = [node(f"{rack}{i}", rack="") for rack in "abc" for i in range(1, 5)]
    for item in bare:
        item["Node"]["metadata"]["labels"] = {}
    session = {"Jobs": {"ns/pg": job(4)}, "Nodes": {n["Name"]: n for n in bare}}
    assert yard.client.post("/extender/volcano/onSessionOpen", json=session).status_code == 200
    chosen = set()
    for item in job(4)["Tasks"].values():
        for one in bare:
            body = {"task": item, "node": one}
            if yard.client.post("/extender/volcano/predicate", json=body).json()["code"] == 0:
                chosen.add(one["Name"])
    assert len(chosen) == 4
    assert len({name[0] for name in chosen}) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Jobs",
                    "Nodes",
                    "Node",
                    "Name",
                    "metadata",
                    "name",
                    "labels",
                    "Idle",
                    "Tasks",
                    "task",
                    "node",
                    "nodes",
                    "queue",
                    "Queue",
                    "spec",
                    "capability",
                    GPU,
                    "job",
                    "Status",
                    "UID",
                    "Job",
                    "Resreq",
                    "ScalarResources",
                    "MilliCPU",
                    "Memory",
                    "Pod",
                    "containers",
                    "x",
                    "MinAvailable",
                    "TaskMinAvailable",
                    "NetworkTopology",
                    "mode",
                    "tolerations",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150)
@given(st.data())
def test_whatever_is_sent_is_answered_or_refused(data: st.DataObject) -> None:
    extender = VolcanoExtender(lambda: build(Inventory("", ("node",), "node", {}, ())).topology)
    for verb in data.draw(st.lists(st.sampled_from(extender.verbs), min_size=1, max_size=3)):
        text = json.dumps(data.draw(VALUES))
        with suppress(MalformedRequest):
            json.dumps(extender.answer(verb, read_tree(text.encode())))


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0, 4, 8]), min_size=16, max_size=16), st.integers(1, 10))
def test_gang_goes_where_podyard_itself_would_place_it(idle: list[int], count: int) -> None:
    own = make_cluster(2, 4, leaves=2)
    nodes = [
        node(record.name, rack="", idle=gpus) for record, gpus in zip(own.nodes, idle, strict=True)
    ]
    extender = VolcanoExtender(lambda: own)
    extender.answer(
        "onSessionOpen",
        {"Jobs": {"ns/pg": job(count)}, "Nodes": {item["Name"]: item for item in nodes}},
    )
    table = NodeTable(own)
    for index, gpus in enumerate(idle):
        table.hold(Held(index, full_mask(8 - gpus), Resources()))
    role = Role("worker", count, count, 8, Resources(1_000, 1_024))
    found = place(Trial(table), JobSpec("pg", roles=(role,)))
    planned = places(extender, job(count), nodes)
    if isinstance(found, NoFit):
        assert set(map(str, planned.values())) == {"[]"}
    else:
        assert [planned[f"pg-{pod.index}"] for pod in found.pods] == [
            own.nodes[pod.node_index].name for pod in found.pods
        ]


def test_body_that_is_no_object_is_refused() -> None:
    for text in ("", "[]", "{", "3", "[" * 100_000):
        with pytest.raises(MalformedRequest):
            read_tree(text.encode())
