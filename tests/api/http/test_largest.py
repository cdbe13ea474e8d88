"""The largest gang that fits now, in the overview and as a metric."""

from typing import Any

from tests.api.http.yard import Yard


def largest(yard: Yard, gpus: int) -> dict[str, Any]:
    found: list[dict[str, Any]] = yard.ok("GET", "/v1/overview")["largest_gangs"]  # type: ignore[assignment]  # as described
    return next(entry for entry in found if entry["gpus_per_pod"] == gpus)


def room(entry: dict[str, Any], level: str) -> tuple[str | None, int]:
    found = next(r for r in entry["within"] if r["level"] == level)
    return found["domain"], found["gpus"]


def test_overview_tells_the_largest_gang_of_each_shape(yard: Yard) -> None:
    yard.load()
    entry = largest(yard, 8)
    assert (entry["node_type"], entry["whole_nodes"]) == ("small", True)
    assert entry["cluster"] == {"pods": 12, "gpus": 96}
    assert (room(entry, "leaf"), room(entry, "rack")) == (("l1", 64), ("r1", 32))
    assert largest(yard, 2)["cluster"] == {"pods": 48, "gpus": 96}


def test_largest_gang_follows_what_is_used_and_set_aside(yard: Yard) -> None:
    yard.load()
    yard.ok("POST", "/v1/nodes/a1/cordon", {})
    yard.submit(parallelism={"tp": 4, "dp": 2}, gpus_per_pod=4, nodes=["b[1-2]"])
    yard.cycle()
    entry = largest(yard, 8)
    assert entry["cluster"] == {"pods": 9, "gpus": 72}
    assert room(entry, "rack") == ("r3", 32)
    assert largest(yard, 4)["cluster"]["pods"] == 20


def test_empty_service_has_no_shapes(yard: Yard) -> None:
    assert yard.ok("GET", "/v1/overview")["largest_gangs"] == []


def test_largest_gang_is_a_metric_by_type_shape_and_level(yard: Yard) -> None:
    yard.load()
    text = yard.call("GET", "/metrics").text
    name = 'podyard_largest_gang_gpus{gpus_per_pod="8",level="%s",node_type="small"} %s'
    for level, gpus in (("cluster", "96.0"), ("leaf", "64.0"), ("rack", "32.0"), ("node", "8.0")):
        assert name % (level, gpus) in text
    yard.ok("POST", "/v1/nodes/c1/cordon", {})
    assert name % ("cluster", "88.0") in yard.call("GET", "/metrics").text


def test_reader_answers_nothing_at_once_while_it_is_busy(yard: Yard) -> None:
    yard.load()
    reader = yard.app.service.reader

    def inner(_: object) -> object:
        return reader.ask_if_free(lambda world: world.revision)

    assert reader.ask(inner) is None
    assert isinstance(reader.ask_if_free(lambda world: world.revision), int)
