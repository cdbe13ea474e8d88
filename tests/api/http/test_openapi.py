"""The API's description: every operation has examples, and they are right."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.ingest.topology import read_inventory
from api.routes import ROUTES
from api.schemas.job import JobBody
from api.schemas.job_spec import read_job
from tests.api.http.contract import Contract

Operation = tuple[str, dict[str, Any]]


def operations(contract: Contract) -> Iterator[Operation]:
    for path, methods in contract.described["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def examples(content: dict[str, Any]) -> list[object]:
    if "example" in content:
        return [content["example"]]
    return [example["value"] for example in content.get("examples", {}).values()]


def test_every_operation_has_a_readable_name_a_tag_and_a_summary(contract: Contract) -> None:
    tags = {tag["name"] for tag in contract.described["tags"]}
    names = []
    for at, operation in operations(contract):
        names.append(operation["operationId"])
        assert operation["operationId"].isidentifier(), at
        assert "v1" not in operation["operationId"], at
        assert operation["summary"], at
        assert set(operation["tags"]) <= tags, at
    assert len(set(names)) == len(names)


def test_every_body_and_answer_has_examples_that_are_of_its_schema(contract: Contract) -> None:
    for at, operation in operations(contract):
        answers = [a.get("content", {}) for a in operation["responses"].values()]
        bodies = [operation["requestBody"]["content"]] if "requestBody" in operation else []
        contents = [(k, c) for found in (*answers, *bodies) for k, c in found.items()]
        assert contents, at
        for kind, content in contents:
            assert examples(content), f"{at} {kind}"
            for example in examples(content):
                if kind.endswith("json") and content["schema"] != {"type": "string"}:
                    contract.validate(example, content["schema"])


def test_every_operation_that_changes_something_documents_its_body(contract: Contract) -> None:
    for at, operation in operations(contract):
        if at.split()[0] in {"POST", "PUT", "PATCH"}:
            assert "requestBody" in operation, at


def test_every_reference_is_there(contract: Contract) -> None:
    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key == "$ref":
                    yield str(inner)
                else:
                    yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    schemas = contract.described["components"]["schemas"]
    assert {r.rpartition("/")[2] for r in references(contract.described)} <= set(schemas)


def test_error_answers_are_problem_documents(contract: Contract) -> None:
    for at, operation in operations(contract):
        for status, answer in operation["responses"].items():
            if status.startswith("4"):
                assert list(answer["content"]) == ["application/problem+json"], at


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs:batch"])
def test_examples_of_jobs_can_be_submitted(contract: Contract, path: str) -> None:
    body = contract.described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    for example in examples(body):
        assert isinstance(example, dict)
        for job in example.get("jobs", [example]):
            read_job(JobBody.model_validate(job))


def test_examples_of_inventories_can_be_imported(contract: Contract) -> None:
    operation = contract.described["paths"]["/v1/inventory"]["post"]
    texts = examples(operation["requestBody"]["content"]["application/yaml"])
    read = [read_inventory(str(text).encode()) for text in texts]
    assert [found.format for found in read] == ["podyard", "slurm", "csv"]
    assert [len(found.inventory.nodes) for found in read] == [4, 8, 2]


def test_every_route_is_described(contract: Contract) -> None:
    described = {at for at, _ in operations(contract)}
    for route in ROUTES:
        for method in getattr(route, "methods", ()):
            assert f"{method} {getattr(route, 'path_format', '')}" in described
