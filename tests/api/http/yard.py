"""A service in a test: requests against the real app, and cycles run when the test says so."""

from collections.abc import Mapping
from typing import Self

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from api.auth import Caller
from api.clock import Clock, ManualClock
from api.http import routing
from api.loop.runner import Runner
from api.main import create_app
from api.settings import Settings
from api.store.commit import commit
from api.store.engine import Database
from api.store.policy import load_policy
from api.store.snapshot import load_world
from api.store.tables import leader
from scheduler.cycle import run_cycle
from tests.api.http.contract import Contract

Json = dict[str, object]

RACKS = """\
cluster: test
levels: [leaf, rack, node]
scale_up: node
node_types:
  small: {gpu: CARD, gpus: 8, rails: 8, power_kw: 10}
nodes:
  - {names: "a[1-4]", type: small, rack: r1, leaf: l1}
  - {names: "b[1-4]", type: small, rack: r2, leaf: l1}
  - {names: "c[1-4]", type: small, rack: r3, leaf: l2, labels: {zone: c}}
racks:
  - {names: r1, power_kw: 45, cdu: cdu-1}
"""
"""12 nodes of 8 GPUs in 3 racks of 2 leaves."""


class Yard:
    """The app over one database; without a runner nothing moves by itself."""

    def __init__(
        self,
        database: Database,
        contract: Contract,
        clock: Clock | None = None,
        runner: Runner | None = None,
        launcher: str = "",
    ) -> None:
        self.database = database
        self.clock = clock or ManualClock()
        settings = Settings(database_url=database.url, clock="manual", launcher=launcher)
        self.app = create_app(settings, database, self.clock, runner)
        self.client = TestClient(
            self.app, base_url="http://127.0.0.1:8080", raise_server_exceptions=False
        )
        self.contract = contract

    def __enter__(self) -> Self:
        self.client.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self.client.__exit__(None, None, None)

    def call(
        self,
        method: str,
        path: str,
        json: object = None,
        *,
        content: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request, and check the answer against the description; `json` None = no body."""
        answer = (
            self.client.request(method, path, content=content, headers=headers)
            if json is None
            else self.client.request(method, path, json=json, headers=headers)
        )
        self.contract.check(method, path, answer)
        return answer

    def ok(self, method: str, path: str, json: object = None) -> Json:
        """The answer of a request that must be served."""
        answer = self.call(method, path, json)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())

    def refused(self, status: int, method: str, path: str, json: object = None) -> dict[str, str]:
        """The problems of a request that must not be served: path -> message."""
        return problems(self.call(method, path, json), status)

    def load(self, text: str = RACKS, query: str = "") -> Json:
        """Import an inventory."""
        answer = self.call(
            "POST",
            f"/v1/inventory{query}",
            content=text,
            headers={"Content-Type": "application/yaml"},
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def submit(self, name: str = "job", **fields: object) -> Json:
        """Submit a job: of one rack's size unless said otherwise."""
        body = {"name": name} | (fields or {"parallelism": {"tp": 8, "pp": 4}})
        return self.ok("POST", "/v1/jobs", body)

    def cycle(self, times: int = 1) -> None:
        """Let the scheduler decide, as the leader would."""
        for _ in range(times):
            world = load_world(self.database)
            plan = run_cycle(world, load_policy(self.database), self.clock.now_s())
            with self.database.read() as connection:
                epoch = connection.execute(sa.select(leader.c.epoch)).scalar_one()
            commit(self.database, plan, epoch, self.clock.now_s())

    def report_all(self, state: str, exit_code: int | None = None) -> None:
        """Report a state for every live pod, as the nodes would, and let the scheduler act."""
        for pod in self.items("/v1/pods"):
            if pod["state"] in {"bound", "running"}:
                body = {"attempt": pod["attempt"], "state": state}
                if exit_code is not None:
                    body["exit_code"] = exit_code
                path = f"/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/status"
                self.ok("POST", path, body)
        self.cycle()

    def items(self, path: str) -> list[Json]:
        """The items of one page."""
        items = self.ok("GET", path)["items"]
        assert isinstance(items, list)
        return items


def problems(answer: httpx2.Response, status: int) -> dict[str, str]:
    """The problems of an answer: path -> message."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    return {error["path"]: error["message"] for error in document["errors"]}


def only_sees(patch: pytest.MonkeyPatch, *namespaces: str) -> None:
    """All further requests come from somebody who may see these namespaces alone."""
    somebody = Caller("somebody", namespaces=frozenset(namespaces))
    patch.setattr(routing, "caller_in", lambda _scope: somebody)
