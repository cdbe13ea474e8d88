"""Short ways to import a text through the API and to look at what became of it."""

from tests.api.http.yard import Json, Yard, problems

COUNTS = ("created", "updated", "unchanged", "removed", "kept")


def load(yard: Yard, text: str | bytes, query: str = "") -> Json:
    """The answer to an import that must be taken; `query` as in `format=csv&gpus=8`."""
    answer = yard.call(
        "POST", f"/v1/inventory?{query}", content=text, headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(yard: Yard, text: str | bytes, query: str = "") -> dict[str, str]:
    """The problems of an import that must be refused: path -> message."""
    answer = yard.call(
        "POST", f"/v1/inventory?{query}", content=text, headers={"Content-Type": "text/plain"}
    )
    return problems(answer, 422)


def counts(answer: Json) -> tuple[object, ...]:
    return tuple(answer[name] for name in COUNTS)


def export(yard: Yard) -> str:
    """The inventory as it is written for reading it again."""
    answer = yard.call("GET", "/v1/inventory?format=podyard")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/yaml")
    return answer.text


def revision(yard: Yard) -> object:
    return yard.ok("GET", "/v1/jobs?limit=1")["revision"]


def assert_unchanged_by(yard: Yard, text: str | bytes, query: str = "") -> Json:
    """Fail when an import changes anything; its answer."""
    before = revision(yard)
    answer = load(yard, text, query)
    assert (answer["changes"], answer["cluster_changes"]) == ([], [])
    assert (answer["created"], answer["updated"], answer["removed"]) == (0, 0, 0)
    assert answer["revision"] == before == revision(yard)
    return answer


def node(yard: Yard, name: str) -> Json:
    return yard.ok("GET", f"/v1/nodes/{name}")


def domains(yard: Yard, level: str) -> dict[object, object]:
    """Name -> nodes of the domains of a level."""
    return {found["name"]: found["nodes"] for found in yard.items(f"/v1/domains?level={level}")}
