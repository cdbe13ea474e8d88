"""Hooks at the door."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from api.auth import Role
from api.main import create_app
from api.settings import Settings
from api.store.engine import Database
from tests.api.http.contract import Contract
from tests.api.http.guarded import ask, token_for
from tests.api.http.yard import Yard, problems

JOB = {"name": "j", "parallelism": {"tp": 8}}


@pytest.fixture
def yard(database: Database, contract: Contract) -> Iterator[Yard]:
    with Yard(database, contract) as made:
        made.load()
        yield made


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_hook_at_a_metadata_address_is_refused_by_its_path(yard: Yard) -> None:
    body = JOB | {
        "checkpoint": {"hook": "http://169.254.169.254/latest"},
        "hooks": [
            {"url": "http://127.0.0.1:9/fine"},
            {"url": "http://0x7f.1/"},
            {"url": "http://trainer.example.com/"},
        ],
    }
    told = yard.refused(422, "POST", "/v1/jobs", body)
    assert set(told) == {"checkpoint.hook", "hooks[1].url", "hooks[2].url"}
    assert "metadata" in told["checkpoint.hook"]
    assert "hook_allow" in told["hooks[2].url"]
    assert yard.items("/v1/jobs") == []


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_hook_is_refused_in_a_dry_run_and_in_a_batch_too(yard: Yard) -> None:
    body = JOB | {"checkpoint": {"hook": "http://10.0.0.1/"}}
    assert "checkpoint.hook" in yard.refused(422, "POST", "/v1/jobs?dry_run=true", body)
    answer = yard.call("POST", "/v1/jobs:batch", {"jobs": [body]})
    assert "checkpoint.hook" in answer.text


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_grace_that_is_too_long_is_refused_where_there_is_a_hook(yard: Yard) -> None:
    long = {"grace_s": 1e6, "hook": "http://127.0.0.1:9/"}
    told = yard.refused(422, "POST", "/v1/jobs", JOB | {"checkpoint": long})
    assert "at most 3600 s" in told["checkpoint.grace_s"]
    yard.ok("POST", "/v1/jobs", JOB | {"checkpoint": {"grace_s": 1e6}})


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize(
    ("hooks", "path"),
    [
        ([{"url": "http://127.0.0.1/", "events": ["job.born"]}], "hooks[0].events[0]"),
        ([{"url": "http://127.0.0.1/", "events": ["checkpoint.requested"]}], "hooks[0].events[0]"),
        ([{"url": "http://127.0.0.1/"}] * 9, "hooks"),
        ([{}], "hooks[0].url"),
        ("http://127.0.0.1/", "hooks"),
    ],
)
def test_hooks_that_are_not_as_they_should_be_are_named(
    yard: Yard, hooks: object, path: str
) -> None:
    assert path in yard.refused(422, "POST", "/v1/jobs", JOB | {"hooks": hooks})


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_loopback_hook_is_refused_where_others_reach_the_service(
    database: Database, contract: Contract
) -> None:
    with Yard(database, contract) as yard:
        yard.load()
        settings = Settings(database_url=database.url, clock="manual", host="0.0.0.0")
        open_to_all = create_app(settings, database, yard.clock, None)
        body = JOB | {"checkpoint": {"hook": "http://127.0.0.1:9/"}}
        with TestClient(open_to_all, base_url="http://10.0.0.1:8080") as client:
            told = problems(client.post("/v1/jobs", json=body), 422)
        assert "others can reach this service" in told["checkpoint.hook"]


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_loopback_hook_is_refused_from_the_first_token_on(yard: Yard) -> None:
    """Then not all who reach the service may do everything, and a hook is no way around that."""
    body = JOB | {"checkpoint": {"hook": "http://127.0.0.1:9/"}}
    yard.ok("POST", "/v1/jobs", body | {"name": "before"})
    token = token_for(yard, "ada", Role.SUBMITTER, "default")
    told = problems(ask(yard, "POST", "/v1/jobs", token, body | {"name": "after"}), 422)
    assert "it asks who they are" in told["checkpoint.hook"]


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_hooks_are_shown_as_they_were_given(yard: Yard) -> None:
    hooks = [{"url": "http://127.0.0.1:9/", "events": ["job.finished"]}]
    job = yard.ok("POST", "/v1/jobs", JOB | {"hooks": hooks})
    spec = job["spec"]
    assert isinstance(spec, dict)
    assert spec["hooks"] == hooks
