"""A service on a database that was imported goes on where the other one was."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.store.engine import Database
from api.store.events import current_revision, list_events
from api.store.ledger import audit_ledger
from api.store.schema import open_database
from api.transfer.archive import Archive
from tests.api.http.contract import Contract
from tests.api.http.yard import Json, Yard
from tests.api.store.build import submit
from tests.api.transfer.test_round_trip import lines_of, other, take_in, write

MANY = {"roles": [{"name": "w", "replicas": 4, "min": 2, "gpus": 8}]}


def placed(yard: Yard, name: str) -> list[Json]:
    pods = yard.ok("GET", f"/v1/namespaces/default/jobs/{name}/placement")["pods"]
    assert isinstance(pods, list)
    return pods


@contextmanager
def moved(yard: Yard, kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Yard]:
    """The service again, on another database."""
    path = write(yard.database, folder / "state.gz")
    with other(kind, folder, request) as there:
        take_in(there, path)
        with Yard(there, yard.contract, yard.clock) as made:
            yield made


@pytest.mark.parametrize(
    ("database_kind", "target"),
    [("sqlite", "postgresql"), ("postgresql", "sqlite")],
    indirect=["database_kind"],
)
def test_running_gangs_go_on_after_the_move(
    yard: Yard, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One gang runs, one has to leave for another that has a claim on its place, one waits."""
    yard.load()
    yard.submit("keeps", **MANY)
    yard.submit("leaves", priority=1, parallelism={"tp": 8, "dp": 8})
    yard.cycle()
    yard.report_all("running")
    yard.submit("comes", priority=9, parallelism={"tp": 8, "dp": 8})
    yard.submit("waits", parallelism={"tp": 8, "dp": 8})
    yard.cycle()
    before = placed(yard, "keeps")
    states = {job["name"]: job["state"] for job in yard.items("/v1/jobs")}
    assert states == {
        "keeps": "running", "leaves": "evicting", "comes": "reserved", "waits": "pending"
    }  # fmt: skip
    watched = current_revision(yard.database)
    with moved(yard, target, tmp_path, request) as there:
        assert placed(there, "keeps") == before
        assert {job["name"]: job["state"] for job in there.items("/v1/jobs")} == states
        for pod in there.items("/v1/pods"):
            if pod["state"] == "terminating":
                body = {"attempt": pod["attempt"], "state": "stopped"}
                path = f"/v1/namespaces/default/pods/{pod['name']}/status"
                there.ok("POST", path, body)
        there.cycle(2)
        after = {job["name"]: job["state"] for job in there.items("/v1/jobs")}
        assert (after["keeps"], after["comes"], after["leaves"]) == ("running", "bound", "pending")
        assert audit_ledger(there.database).is_clean
        events = list_events(there.database, watched).items
        assert [event.revision for event in events] == list(
            range(watched + 1, current_revision(there.database) + 1)
        )


@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    steps=st.lists(
        st.sampled_from(
            ["submit", "small", "cycle", "run", "end", "cordon", "fault", "delete", "queue", "key"]
        ),
        min_size=3,
        max_size=14,
    )
)
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_state_after_any_history_comes_back_as_it_was(
    yard: Yard,
    steps: list[str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    yard.load()
    for number, step in enumerate(steps):
        _do(yard, step, f"{step}-{number}-{current_revision(yard.database)}")
    first = write(yard.database, tmp_path / "first.gz")
    with other("postgresql", tmp_path, request) as there:
        take_in(there, first)
        assert audit_ledger(there).is_clean
        second = write(there, tmp_path / "second.gz")
    take_in(yard.database, second, replace=True)
    third = write(yard.database, tmp_path / "third.gz")
    assert lines_of(first) == lines_of(second) == lines_of(third)


def _do(yard: Yard, step: str, name: str) -> None:
    """One thing that a caller, a node or the scheduler does; some are refused at times."""
    if step in {"submit", "small"}:
        spec: Json = dict(
            MANY if step == "submit" else {"roles": [{"name": "w", "replicas": 1, "gpus": 1}]}
        )
        yard.call("POST", "/v1/jobs", {"name": name} | spec)
    elif step == "key":
        yard.call("POST", "/v1/jobs", {"name": name} | MANY, headers={"Idempotency-Key": name})
    elif step == "cycle":
        yard.cycle()
    elif step in {"run", "end"}:
        yard.report_all("running" if step == "run" else "succeeded", None if step == "run" else 0)
    elif step == "cordon":
        yard.call("POST", "/v1/nodes/a1/cordon", {"reason": name})
    elif step == "fault":
        yard.call("POST", "/v1/nodes/b1/faults", {"code": "xid_79", "gpus": [1]})
    elif step == "queue":
        yard.call("POST", "/v1/queues", {"name": name, "quota_gpus": 8})
    else:
        for job in yard.items("/v1/jobs")[:1]:
            yard.call("DELETE", f"/v1/namespaces/default/jobs/{job['name']}")


def test_export_is_of_one_moment_while_others_write(
    database: Database, contract: Contract, tmp_path: Path
) -> None:
    """A writer submits all the time; each file has the jobs of its own revision and no more."""
    stop = threading.Event()

    def write_on() -> None:
        number = 0
        while not stop.is_set():
            submit(database, f"j{number}")
            number += 1

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for number in range(3):
            path = tmp_path / f"{number}.gz"
            with closing(open_database(database.url)) as reader:
                write(reader, path)
            with closing(Archive(path)) as archive:
                archive.check()
                revision = archive.head.revision
                kinds = [(name, row) for name, row in archive.rows()]
            jobs = [row for name, row in kinds if name == "jobs"]
            events = [row for name, row in kinds if name == "events"]
            assert len(jobs) == len(events) == revision
    finally:
        stop.set()
        writer.join()
