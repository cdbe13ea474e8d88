"""Fields of a job that say what its nodes must be like, through the API."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.store.schema import open_database
from tests.api.http.contract import Contract
from tests.api.http.yard import RACKS, Yard

JOBS = "/v1/jobs"
ONE = "/v1/namespaces/default/jobs"
TRAYS = """\
cluster: test
levels: [rack, node]
scale_up: rack
nodes:
  - {names: "a[01-18]", type: gb200-tray, rack: r1}
  - {names: "b[01-18]", type: gb200-tray, rack: r2}
"""


@pytest.fixture
def yard(sqlite_template: Path, tmp_path: Path, contract: Contract) -> Iterator[Yard]:
    """An empty service; what is decided here is the same on every kind of database."""
    path = tmp_path / "podyard.db"
    shutil.copyfile(sqlite_template, path)
    database = open_database(f"sqlite:///{path}")
    try:
        with Yard(database, contract) as made:
            yield made
    finally:
        database.close()


def got(yard: Yard, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = yard.call("GET", f"{ONE}/{path}").json()
    return answer


def nodes_of(yard: Yard, name: str) -> list[str]:
    return [pod["node"] for pod in got(yard, f"{name}/placement")["pods"]]


def submit(yard: Yard, name: str, **fields: object) -> None:
    yard.ok("POST", JOBS, {"name": name} | fields)
    yard.cycle()


def test_an_exclusive_job_has_its_nodes_to_itself(yard: Yard) -> None:
    yard.load(RACKS)
    small: dict[str, object] = {"parallelism": {"tp": 2}, "gpus_per_pod": 2}
    submit(yard, "alone", exclusive=True, **small)
    submit(yard, "other", **small)
    submit(yard, "again", **small)
    assert nodes_of(yard, "other") == nodes_of(yard, "again")
    assert nodes_of(yard, "alone") != nodes_of(yard, "other")
    assert got(yard, "alone")["spec"]["exclusive"] is True


def test_a_job_starts_with_the_largest_dp_that_fits(yard: Yard) -> None:
    yard.load(RACKS)
    submit(yard, "first", parallelism={"tp": 8, "dp": 7})
    submit(yard, "elastic", parallelism={"tp": 8, "dp": {"sizes": [2, 4, 8]}})
    job = got(yard, "elastic")
    assert (job["state"], job["minimum"], job["members"]) == ("bound", 4, 4)
    assert len(nodes_of(yard, "elastic")) == 4
    assert job["spec"]["parallelism"]["dp"] == {"sizes": [2, 4, 8]}


@pytest.mark.parametrize(
    ("dp", "path", "words"),
    [
        ({"sizes": []}, "parallelism.dp.sizes", "too few"),
        ({"sizes": [2, 0]}, "parallelism.dp.sizes[1]", "at least 1"),
        ({"size": 2}, "parallelism.dp.size", "did you mean 'sizes'"),
        ("many", "parallelism.dp", "whole number"),
    ],
)
def test_wrong_sizes_of_dp_are_named(yard: Yard, dp: object, path: str, words: str) -> None:
    yard.load(RACKS)
    answer = yard.call("POST", JOBS, {"name": "j", "parallelism": {"tp": 8, "dp": dp}})
    assert answer.status_code == 422
    found = {problem["path"]: problem["message"] for problem in answer.json()["errors"]}
    assert words in found[path]


def test_a_segment_lies_in_one_scale_up_domain(yard: Yard) -> None:
    yard.load(TRAYS)
    submit(yard, "seg", parallelism={"tp": 4, "dp": 20}, segment=10)
    racks = [name[0] for name in nodes_of(yard, "seg")]
    assert {len(set(racks[:10])), len(set(racks[10:]))} == {1}
    submit(yard, "next", parallelism={"tp": 4, "dp": 10}, segment=10)
    waits = got(yard, "next")
    assert (waits["state"], waits["reason"]) == ("pending", "rule")


def test_a_segment_that_leaves_a_rest_is_refused(yard: Yard) -> None:
    yard.load(TRAYS)
    body = {"name": "j", "parallelism": {"tp": 4, "dp": 20}, "segment": 16}
    answer = yard.call("POST", JOBS, body)
    assert answer.status_code == 422
    assert "segments of 16" in answer.text


def test_a_role_has_no_segment(yard: Yard) -> None:
    yard.load(TRAYS)
    body = {"name": "j", "roles": [{"name": "m", "replicas": 2, "gpus": 4}], "segment": 2}
    answer = yard.call("POST", JOBS, body)
    assert answer.status_code == 422
    assert "segment" in answer.text


def test_dead_rails_of_a_label_are_avoided_where_required(yard: Yard) -> None:
    text = TRAYS.replace("rack: r1}", 'rack: r1, labels: {podyard.io/dead-rails: "2"}}', 1)
    yard.load(text)
    submit(yard, "strict", parallelism={"tp": 4, "dp": 4}, rails="required")
    assert {name[0] for name in nodes_of(yard, "strict")} == {"b"}
    refused = yard.call(
        "POST", JOBS, {"name": "big", "parallelism": {"tp": 4, "dp": 20}, "rails": "required"}
    )
    assert refused.status_code == 422
    assert "whose rail works" in refused.text
