"""What the first users are promised, through the API, on both databases."""

from collections import Counter

import pytest

from tests.api.http.yard import Json, Yard

LEAVES = """\
cluster: test
levels: [block, leaf, node]
node_types: {{h100: {{gpu: H100, gpus: 8, rails: 8, scale_up: node}}}}
nodes: [{nodes}]
"""
NVL72 = """\
cluster: row
levels: [rack, node]
scale_up: rack
nodes: [{nodes}]
"""


def leaves(count: int, size: int) -> str:
    entries = (
        f"{{names: 'l{leaf}n[1-{size}]', type: h100, block: b1, leaf: l{leaf}}}"
        for leaf in range(1, count + 1)
    )
    return LEAVES.format(nodes=", ".join(entries))


def gang(tp: int = 8, pp: int = 1, dp: int = 1, *groups: str, **fields: object) -> Json:
    rules = [{"group": group, "within": "leaf", "mode": "required"} for group in groups]
    return {"parallelism": {"tp": tp, "pp": pp, "dp": dp}, "topology": rules, **fields}


def state(yard: Yard, name: str) -> object:
    return yard.ok("GET", f"/v1/namespaces/default/jobs/{name}")["state"]


def pods(yard: Yard, name: str) -> list[Json]:
    return yard.items(f"/v1/pods?job={name}")


def domains(yard: Yard, name: str, level: str) -> Counter[str]:
    return Counter(pod["domains"][level] for pod in pods(yard, name))  # type: ignore[index]  # plain JSON


def spans(yard: Yard, name: str, axis: str) -> Json:
    placement = yard.ok("GET", f"/v1/namespaces/default/jobs/{name}/placement")
    return dict(placement["groups"][axis]["spans"]["leaf"])  # type: ignore[index]  # plain JSON


def test_a_job_of_sixteen_waits_for_four_nodes_and_starts_when_they_come(yard: Yard) -> None:
    """Each leaf of 32 has 12 free nodes while a job of 20 runs in it."""
    yard.load(leaves(3, 32))
    for number in range(3):
        yard.submit(f"wide-{number}", **gang(8, 1, 20, "job"))
    yard.cycle()
    yard.submit("sixteen", **gang(8, 4, 4, "job"))
    yard.cycle()
    told = yard.ok("GET", "/v1/namespaces/default/jobs/sixteen/explain")
    assert (told["fits"], told["when"], told["code"]) == (False, "not_now", "rule")
    nearest = told["nearest"]
    assert isinstance(nearest, dict)
    assert (nearest["level"], nearest["lacks"]) == ("leaf", {"nodes": 4, "gpus": 32})
    yard.ok("DELETE", "/v1/namespaces/default/jobs/wide-1")
    yard.cycle()
    assert state(yard, "sixteen") == "bound"
    assert domains(yard, "sixteen", "leaf") == {"l2": 16}


def test_nvl72_racks_take_sixteen_jobs_of_tp_sixteen_and_spare_trays_take_a_small_one(
    yard: Yard,
) -> None:
    """18 trays of 4 GPUs a rack: four jobs of 4 trays each, and 2 trays to spare."""
    entries = (f"{{names: 'r{r}t[1-18]', type: gb200-tray, rack: r{r}}}" for r in range(1, 5))
    yard.load(NVL72.format(nodes=", ".join(entries)))
    for number in range(17):
        yard.submit(f"j{number}", parallelism={"tp": 16})
    yard.submit("small", parallelism={"tp": 8})
    yard.cycle()
    racks = [domains(yard, f"j{number}", "rack") for number in range(16)]
    assert all(sorted(rack.values()) == [4] for rack in racks)
    assert state(yard, "j16") == "pending"
    assert state(yard, "small") == "bound"


def test_two_jobs_of_four_gpus_share_a_node_in_aligned_halves(yard: Yard) -> None:
    yard.load(leaves(1, 8))
    yard.submit("first", **gang(4))
    yard.submit("second", **gang(4))
    yard.cycle()
    (one,), (two,) = pods(yard, "first"), pods(yard, "second")
    assert one["node"] == two["node"]
    assert (one["gpus"], two["gpus"]) == ([0, 1, 2, 3], [4, 5, 6, 7])


def test_eight_pods_of_four_gpus_are_rail_true(yard: Yard) -> None:
    yard.load(leaves(1, 9))
    yard.submit("half", **gang(4))
    yard.submit("wide", **gang(4, 1, 8, gpus_per_pod=4))
    yard.cycle()
    placement = yard.ok("GET", "/v1/namespaces/default/jobs/wide/placement")
    assert len({tuple(pod["gpus"]) for pod in placement["pods"]}) == 1  # type: ignore[attr-defined]  # plain JSON
    assert placement["groups"]["dp"]["rail_true"] is True  # type: ignore[index]  # plain JSON


@pytest.mark.parametrize("size", [16, 40])
def test_rules_for_pp_and_dp_hold_one_by_one_and_together_need_one_leaf(
    yard: Yard, size: int
) -> None:
    yard.load(leaves(2, size))
    for axis in ("pp", "dp"):
        yard.submit(axis, **gang(8, 4, 8, axis))
        yard.cycle()
        assert spans(yard, axis, axis)["max"] == 1
        yard.ok("DELETE", f"/v1/namespaces/default/jobs/{axis}")
        yard.cycle()
    body = {"name": "both", **gang(8, 4, 8, "pp", "dp")}
    if size == 16:
        problems = yard.refused(422, "POST", "/v1/jobs", body)
        assert list(problems) == ["topology[0].within"]
        assert "lacks 16 nodes" in problems["topology[0].within"]
    else:
        yard.ok("POST", "/v1/jobs", body)
        yard.cycle()
        assert list(domains(yard, "both", "leaf").values()) == [32]
