"""Models, weights and fabrics that make no sense are refused by name."""

from collections.abc import Mapping

import pytest

from tests.api.http.yard import Json, Yard, problems

SIZES = {"tp": 8, "pp": 4, "dp": 2}
MODEL: Json = {
    "params": 7e9,
    "layers": 32,
    "hidden": 4096,
    "seq": 4096,
    "micro_batch": 2,
    "global_batch": 256,
}


def job(
    model: Mapping[str, object] | None = None,
    sizes: Mapping[str, object] | None = None,
    **fields: object,
) -> Json:
    shape = {"model": MODEL | dict(model)} if model is not None else {}
    return {"name": "bad", "parallelism": SIZES | dict(sizes or {})} | shape | fields


BAD: Mapping[str, tuple[Json, str, list[str]]] = {
    "layers that pp does not divide": (job({"layers": 30}), "model.layers", ["30", "pp 4"]),
    "fewer layers than stages": (job({"layers": 2}), "model.layers", ["multiples of 4"]),
    "experts that ep does not divide": (
        job({"experts": 10}, {"ep": 4}),
        "model.experts",
        ["10", "multiples of 4"],
    ),
    "ep without experts": (job({}, {"ep": 4}), "model.experts", ["found 1", "ep 4"]),
    "a batch that the replicas do not share": (
        job({"global_batch": 255}),
        "model.global_batch",
        ["2 x 2 = 4"],
    ),
    "a batch that one of the sizes of dp does not share": (
        job({"global_batch": 256}, {"dp": {"sizes": [1, 2, 3]}}),
        "model.global_batch",
        ["3 x 2 = 6"],
    ),
    "a batch smaller than one turn": (job({"global_batch": 2}), "model.global_batch", ["found 2"]),
    "more experts for a token than there are": (
        job({"experts": 4, "top_k": 8}),
        "model.top_k",
        ["found 8", "4 experts"],
    ),
    "a sequence that cp does not divide": (
        job({"seq": 4095}, {"dp": 1, "cp": 2}),
        "model.seq",
        ["4095", "cp 2"],
    ),
    "a width that tp does not divide": (job({"hidden": 4100}), "model.hidden", ["tp 8"]),
    "a type that nobody knows": (job({"dtype": "int3"}), "model.dtype", ["int3", "bf16"]),
    "no parameters": (job({"params": 0}), "model.params", ["above 0"]),
    "negative parameters": (job({"params": -7e9}), "model.params", ["above 0"]),
    "no layers": (job({"layers": 0}), "model.layers", ["at least 1"]),
    "half a layer": (job({"layers": 31.5}), "model.layers", ["whole number"]),
    "a field that is not there": (job({"width": 1}), "model.width", ["unknown field"]),
    "a weight of nothing": (job(axis_weights={"dp": 0}), "axis_weights.dp", ["at least"]),
    "a negative weight": (job(axis_weights={"dp": -1}), "axis_weights.dp", ["-1"]),
    "a weight beyond all limits": (job(axis_weights={"dp": 1e7}), "axis_weights.dp", ["at most"]),
    "a weight of an axis that is not there": (
        job(axis_weights={"xp": 1}),
        "axis_weights.xp",
        ["unknown field", "tp"],
    ),
    "a weight that is no number": (job(axis_weights={"dp": "10"}), "axis_weights.dp", ["number"]),
    "weights of roles": (
        {
            "name": "bad",
            "roles": [{"name": "w", "replicas": 1, "gpus": 8}],
            "axis_weights": {"dp": 2},
        },
        "axis_weights",
        ["jobs with parallelism"],
    ),
    "an uneven last group": (
        job(sizes={"ep": 3}),
        "parallelism.ep",
        ["3 x 4 = 12", "64 ranks"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_model_is_refused_with_its_path(any_yard: Yard, case: str) -> None:
    body, path, words = BAD[case]
    found = any_yard.refused(422, "POST", "/v1/jobs", body)
    assert path in found
    assert all(word in found[path] for word in words), found
    assert any_yard.items("/v1/jobs") == []


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e400"])
@pytest.mark.parametrize("field", [b"params", b"weights"])
def test_number_beyond_all_limits_is_refused(any_yard: Yard, field: bytes, value: bytes) -> None:
    content = {
        b"params": b'{"name": "a", "parallelism": {}, "model": {"params": %s, "layers": 1,'
        b' "hidden": 8, "seq": 8}}',
        b"weights": b'{"name": "a", "parallelism": {}, "axis_weights": {"dp": %s}}',
    }[field] % value
    headers = {"Content-Type": "application/json"}
    answer = any_yard.call("POST", "/v1/jobs", content=content, headers=headers)
    assert answer.status_code in {400, 422}
    assert problems(answer, answer.status_code)


def test_all_contradictions_of_a_model_are_told_at_once(any_yard: Yard) -> None:
    body = job({"layers": 30, "hidden": 4100, "global_batch": 255})
    assert set(any_yard.refused(422, "POST", "/v1/jobs", body)) == {
        "model.layers",
        "model.hidden",
        "model.global_batch",
    }


def test_model_is_shown_with_its_defaults(any_yard: Yard) -> None:
    dry = any_yard.ok("POST", "/v1/jobs?dry_run=true", job({}))
    assert dry["placement"]["assumed"] is False  # type: ignore[index]  # plain JSON


@pytest.mark.parametrize("speed", [".nan", ".inf", "-.inf", "0", "-400", "1e999", "1e7", "fast"])
@pytest.mark.parametrize("field", ["gbps_per_gpu", "oversubscription"])
def test_fabric_that_cannot_be_is_refused(any_yard: Yard, field: str, speed: str) -> None:
    links = {"gbps_per_gpu": "400"} | {field: speed}
    written = ", ".join(f"{name}: {value}" for name, value in links.items())
    text = f"levels: [leaf, node]\nnodes: []\nfabric: {{levels: {{leaf: {{{written}}}}}}}\n"
    answer = any_yard.call(
        "POST", "/v1/inventory", content=text, headers={"Content-Type": "application/yaml"}
    )
    assert f"fabric.levels.leaf.{field}" in problems(answer, 422)


@pytest.mark.parametrize("field", ["nic_gbps", "scale_up_gbps"])
@pytest.mark.parametrize("speed", [".nan", ".inf", "-1"])
def test_links_of_a_node_that_cannot_be_are_refused(any_yard: Yard, field: str, speed: str) -> None:
    kind = f"{{gpu: X, gpus: 8, {field}: {speed}}}"
    text = f"levels: [node]\nnode_types: {{t: {kind}}}\nnodes: [{{names: n1, type: t}}]\n"
    answer = any_yard.call(
        "POST", "/v1/inventory", content=text, headers={"Content-Type": "application/yaml"}
    )
    assert f"node_types.t.{field}" in problems(answer, 422)
