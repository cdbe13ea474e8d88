"""A kube-scheduler asks for one pod after the other; the pods of a gang come together."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.k8s.extender import kube
from api.k8s.extender.kube import KubeExtender
from api.k8s.extender.reading import MalformedRequest, read_tree
from scheduler.model.node import Inventory
from scheduler.topology.build import build
from scheduler.topology.tree import Topology
from tests.api.http.yard import Yard
from tests.builders import make_cluster

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def nothing() -> Topology:
    return build(Inventory("", ("node",), "node", {}, ())).topology


def node(name: str, rack: str, gpus: int = 8) -> Json:
    amounts = {"cpu": "64", "memory": "512Gi", GPU: str(gpus)}
    labels = {"network.topology.nvidia.com/leaf": rack}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, group: str = "", size: int = 1, notes: dict[str, str] | None = None) -> Json:
    annotations = dict(notes or {})
    if group:
        annotations |= {
            "scheduling.k8s.io/group-name": group,
            "scheduling.volcano.sh/group-min-member": str(size),
        }
    container = {"name": "c", "resources": {"limits": {GPU: "8"}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "annotations": annotations,
        },
        "spec": {"containers": [container]},
    }


NODES = [node(f"a{i}", "s0") for i in range(4)] + [node(f"b{i}", "s1") for i in range(4)]


def ask(extender: KubeExtender, of: Json, nodes: list[Json] | None = None) -> Json:
    body = {"Pod": of, "Nodes": {"items": NODES if nodes is None else nodes}, "NodeNames": None}
    return extender.filter(body)


def chosen(answer: Json) -> str:
    (item,) = answer["Nodes"]["items"]
    return str(item["metadata"]["name"])


def test_gang_comes_together_in_one_rack() -> None:
    extender = KubeExtender(nothing)
    busy = [item for item in NODES if item["metadata"]["name"] not in ("a0", "a1")]
    found = [chosen(ask(extender, pod(f"p{i}", "g", 4), busy)) for i in range(4)]
    assert len(set(found)) == 4
    assert {name[0] for name in found} == {"b"}


def test_question_that_is_asked_again_has_the_same_answer() -> None:
    extender = KubeExtender(nothing)
    first = chosen(ask(extender, pod("p0", "g", 2)))
    chosen(ask(extender, pod("p1", "g", 2)))
    assert chosen(ask(extender, pod("p0", "g", 2))) == first


def test_other_nodes_are_refused_with_a_reason() -> None:
    answer = ask(KubeExtender(nothing), pod("p0", "g", 2))
    assert len(answer["FailedNodes"]) == 7
    assert all("its gang" in why for why in answer["FailedNodes"].values())
    assert answer["Error"] == ""


def test_gang_without_room_fits_nowhere() -> None:
    answer = ask(KubeExtender(nothing), pod("p0", "g", 9))
    assert answer["Nodes"]["items"] == []
    assert len(answer["FailedNodes"]) == 8


def test_gang_moves_on_when_its_place_is_gone() -> None:
    extender = KubeExtender(nothing)
    first = chosen(ask(extender, pod("p0", "g", 2)))
    left = [item for item in NODES if item["metadata"]["name"] != first]
    assert chosen(ask(extender, pod("p0", "g", 2), left)) != first


def test_tier_of_an_annotation_is_kept() -> None:
    notes = {"volcano.sh/network-topology-mode": "hard"}
    notes |= {"volcano.sh/network-topology-highest-tier": "1"}
    assert ask(KubeExtender(nothing), pod("p0", "g", 5, notes))["Nodes"]["items"] == []


def test_nodes_near_the_planned_one_score_more() -> None:
    extender = KubeExtender(nothing)
    body = {"Pod": pod("p0", "g", 2), "Nodes": {"items": NODES}}
    planned = chosen(ask(extender, pod("p0", "g", 2)))
    scores = {str(item["Host"]): int(str(item["Score"])) for item in extender.prioritize(body)}
    assert scores[planned] == 10
    near = [name for name in scores if name[0] == planned[0] and name != planned]
    far = [name for name in scores if name[0] != planned[0]]
    assert min(scores[name] for name in near) > max(scores[name] for name in far)


def test_names_alone_are_looked_up_in_the_inventory() -> None:
    extender = KubeExtender(lambda: make_cluster(2, 4))
    names = [f"n{i:03d}" for i in range(1, 9)]
    answer = extender.filter({"Pod": pod("p0", "g", 2), "Nodes": None, "NodeNames": names})
    assert (answer["Nodes"], len(answer["NodeNames"])) == (None, 1)  # type: ignore[arg-type]  # names in a list


def test_extender_of_kube_scheduler_is_reached_over_http(yard: Yard) -> None:
    body = {"Pod": pod("p0", "g", 2), "Nodes": {"items": NODES}}
    answer = yard.client.post("/extender/kube/filter", json=body)
    assert len(answer.json()["Nodes"]["items"]) == 1
    answer = yard.client.post("/extender/kube/prioritize", json=body)
    assert [item["Score"] for item in answer.json()].count(10) == 1
    unknown = {"Pod": pod("p"), "NodeNames": ["who"]}
    assert yard.client.post("/extender/kube/filter", json=unknown).status_code == 400
    assert yard.client.post("/extender/kube/filter", json={"Pod": 1}).status_code == 400


def test_nulls_in_a_pod_count_as_left_out() -> None:
    asks = pod("p0", "g", 2)
    container = asks["spec"]["containers"][0]
    container["resources"] = {"limits": {GPU: "8", "cpu": None}, "requests": {GPU: None}}
    asks["spec"] |= {"nodeSelector": {"a": None}, "overhead": {"cpu": None}, "affinity": None}
    assert chosen(ask(KubeExtender(nothing), asks))


def test_pods_that_begin_again_and_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "MEMBERS_MAX", 10)
    monkeypatch.setattr(kube, "PLACES_KEPT", 30)
    extender = KubeExtender(nothing)
    for i in range(100):
        chosen(ask(extender, pod(f"p{i}", f"g{i // 50}", 2)))
        chosen(ask(extender, pod(f"p{i}", f"h{i}", 2)))
    assert extender.places <= 30 + 2
    last = chosen(ask(extender, pod("p99", "h99", 2)))
    assert chosen(ask(extender, pod("p99", "h99", 2))) == last


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Pod",
                    "Nodes",
                    "NodeNames",
                    "items",
                    "metadata",
                    "name",
                    "labels",
                    "annotations",
                    "spec",
                    "containers",
                    "resources",
                    "limits",
                    GPU,
                    "cpu",
                    "status",
                    "allocatable",
                    "scheduling.k8s.io/group-name",
                    "scheduling.volcano.sh/group-min-member",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150)
@given(VALUES, st.booleans())
def test_whatever_is_sent_is_answered_or_refused(value: object, is_filter: bool) -> None:
    extender = KubeExtender(nothing)
    ask_ = extender.filter if is_filter else extender.prioritize
    with suppress(MalformedRequest):
        json.dumps(ask_(read_tree(json.dumps(value).encode())))
