"""`yardctl apply` with queues: what it reads, what it sends, what it says."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schemas.queue import QueuePut
from client.cli.files import QUEUE_DEFAULTS, Content, Document, read_documents
from client.cli.queue_files import parents_first
from client.errors import InputError
from tests.client.fake_server import Answer, FakeServer, problem
from tests.client.golden_text import Yardctl
from tests.client.sample import make_queues

LIST = """\
queues:
  - {name: vision, parent: research, quota_gpus: 32}
  - {name: research, quota_gpus: 64, limit_gpus: 96}
"""
SINGLE = "kind: Queue\nname: lab\n"
BY_FIELD = "name: lab\nweight: 2\n"
SAME = """\
name: research
parent: root
quota_gpus: 512
limit_gpus: 1024
limit_by_model: {H200-141GB: 64}
weight: 2.5
max_priority: 1000
max_pending: 500
namespaces: [shared, research]
closed: true
"""


@pytest.fixture
def taking(server: FakeServer) -> FakeServer:
    """A service that has `research` and takes every queue."""
    queue = make_queues()[1]
    server.replies["GET", "/v1/queues/research"] = Answer(queue)
    for name in ("lab", "vision"):
        server.replies["GET", f"/v1/queues/{name}"] = problem(404, f"there is no queue '{name}'")
    for name in ("lab", "vision", "research"):
        server.replies["PUT", f"/v1/queues/{name}"] = Answer(queue)
    return server


def written(folder: Path, text: str) -> str:
    path = folder / "q.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def puts(server: FakeServer) -> list[tuple[str, object]]:
    return [(r.path, json.loads(r.body)) for r in server.requests if r.method == "PUT"]


@pytest.mark.parametrize(
    ("text", "names"),
    [(LIST, ["vision", "research"]), (SINGLE, ["lab"]), (BY_FIELD, ["lab"]), (SAME, ["research"])],
)
def test_queues_are_told_by_their_keys(tmp_path: Path, text: str, names: list[str]) -> None:
    for with_foreign in (False, True):
        documents = read_documents([written(tmp_path, text)], with_foreign=with_foreign)
        assert {d.content for d in documents} == {Content.QUEUE}
        assert [d.value["name"] for d in documents] == names


def test_a_queue_that_is_not_there_is_made_and_its_parent_before_it(
    taking: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    result = yardctl("apply", "-f", written(tmp_path, LIST))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "queue/research configured: parent root -> none, quota_gpus 512 -> 64, limit_gpus 1024 -> "
        "96, limit_by_model H200-141GB=64 -> none, weight 2.5 -> 1, max_priority 1000 -> none, "
        "max_pending 500 -> none, namespaces research,shared -> none, closed true -> false",
        "queue/vision created",
    ]
    assert puts(taking) == [
        ("/v1/queues/research", {"name": "research", "quota_gpus": 64, "limit_gpus": 96}),
        ("/v1/queues/vision", {"name": "vision", "parent": "research", "quota_gpus": 32}),
    ]


def test_a_queue_that_is_as_stated_is_left_alone(
    taking: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    result = yardctl("apply", "-f", written(tmp_path, SAME))
    assert (result.exit_code, result.stdout) == (0, "queue/research unchanged\n")
    assert puts(taking) == []


def test_a_dry_run_says_what_would_change_and_sends_nothing(
    taking: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    text = f"{SAME.replace('512', '500')}---\n{SINGLE}"
    result = yardctl("apply", "--dry-run", "-f", written(tmp_path, text))
    assert result.stdout.splitlines() == [
        "queue/research would change: quota_gpus 512 -> 500",
        "queue/lab would be created",
    ]
    assert puts(taking) == []


def test_a_queue_that_the_service_refuses_does_not_stop_the_others(
    taking: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    taking.replies["PUT", "/v1/queues/research"] = problem(422, "limit below quota")
    result = yardctl("apply", "-f", written(tmp_path, LIST))
    assert result.exit_code == 1
    assert result.stdout == "queue/vision created\n"
    said = " ".join(result.stderr.split())
    assert said.startswith("Error (422): limit below quota [")
    assert said.endswith("queues[1]]")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("queues: []\n", "queues: a list of queues is needed"),
        ("queues: {a: 1}\n", "queues: a list of queues is needed"),
        ("queues: [a]\n", "queues[0]: a queue is a mapping, not a text"),
        ("queues: [{quota_gpus: 1}]\n", "name: found None; a queue needs a name"),
        ("kind: Queue\nname: 5\n", "name: found 5; a queue needs a name"),
        ("name: a\nquota_gpus: 1\nlimit: 2\n", "limit: queues have no such field; allowed are"),
        (f"{SINGLE}---\n{BY_FIELD}", "document 2: queue 'lab' is stated in"),
    ],
)
def test_queues_that_cannot_be_meant_are_refused_before_anything_is_sent(
    taking: FakeServer, yardctl: Yardctl, tmp_path: Path, text: str, complaint: str
) -> None:
    result = yardctl("apply", "-f", written(tmp_path, text))
    assert result.exit_code != 0
    assert complaint in " ".join(result.stderr.split())
    assert taking.requests == []


def test_a_queue_is_nothing_to_submit(taking: FakeServer, yardctl: Yardctl, tmp_path: Path) -> None:
    result = yardctl("create", "-f", written(tmp_path, SINGLE))
    assert "queues are for yardctl apply" in " ".join(result.stderr.split())
    assert taking.requests == []


def test_a_document_without_a_name_is_no_queue(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kind: Queue"):
        read_documents([written(tmp_path, "kind: Queue\nquota_gpus: 5\n")])


def test_what_is_not_stated_is_what_the_service_takes_for_it() -> None:
    fields = {k: v for k, v in QueuePut().model_dump().items() if k != "name"}
    assert dict(QUEUE_DEFAULTS) == fields


@given(
    st.permutations(range(6)),
    st.lists(st.none() | st.integers(0, 6), min_size=6, max_size=6),
)
def test_parents_come_first_in_any_forest(order: list[int], parents: list[int | None]) -> None:
    """Circles included: each queue comes exactly once."""
    found = parents_first(
        [Document("f", Content.QUEUE, {"name": f"q{i}", "parent": f"q{parents[i]}"}) for i in order]
    )
    names = [str(d.value["name"]) for d in found]
    assert sorted(names) == [f"q{i}" for i in range(6)]
    for number in range(6):
        chain, at = [], parents[number]
        while at is not None and at not in chain and at < 6:
            chain.append(at)
            at = parents[at]
        if number not in chain and at not in chain and chain:
            assert names.index(f"q{chain[0]}") < names.index(f"q{number}")
