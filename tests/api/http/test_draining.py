"""Draining nodes and sets, and fencing, over HTTP."""

from tests.api.http.yard import Json, Yard

DRAIN = "/v1/nodes/a1/drain"


def draining(node: Json) -> Json | None:
    found = node["draining"]
    assert found is None or isinstance(found, dict)
    return found


def nodes_of(answer: Json) -> list[Json]:
    nodes = answer["nodes"]
    assert isinstance(nodes, list)
    return nodes


def test_drained_node_takes_no_pods_until_the_drain_is_withdrawn(yard: Yard) -> None:
    yard.load()
    answer = yard.ok("POST", DRAIN, {"deadline_s": 600, "reason": "fan"})
    assert answer["deadline"] == "2026-01-01T00:10:00.000Z"
    assert [draining(node) for node in nodes_of(answer)] == [
        {
            "deadline": "2026-01-01T00:10:00.000Z",
            "at": "2026-01-01T00:00:00.000Z",
            "reason": "fan",
            "by": "",
            "done": True,
        }
    ]
    yard.submit(parallelism={"tp": 8}, nodes=["a1"])
    yard.cycle()
    assert yard.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "pending"
    assert yard.ok("POST", "/v1/nodes/a1/undrain")["draining"] is None
    assert yard.ok("POST", "/v1/nodes/a1/undrain", {})["draining"] is None
    yard.cycle()
    assert yard.ok("GET", "/v1/namespaces/default/jobs/job")["state"] == "bound"


def test_drain_shows_what_is_on_the_node(yard: Yard) -> None:
    yard.load()
    yard.submit("one", parallelism={"tp": 8, "dp": 2}, nodes=["a1", "a2"])
    yard.cycle()
    yard.report_all("running")
    answer = yard.ok("POST", DRAIN)
    assert answer["deadline"] is None
    assert answer["leaving"] == [
        {
            "job": "default/one",
            "pods": ["one-0"],
            "gpus": 8,
            "nodes": ["a1"],
            "saves_first": False,
        }
    ]
    node = draining(nodes_of(answer)[0])
    assert node is not None
    assert (node["deadline"], node["done"]) == (None, False)


def test_dry_run_of_a_drain_shows_what_would_move_and_changes_nothing(yard: Yard) -> None:
    yard.load()
    yard.submit("one", parallelism={"tp": 8, "dp": 2}, topology=[])
    yard.cycle()
    yard.report_all("running")
    before = yard.ok("GET", "/v1/events")["revision"]
    node = yard.items("/v1/pods")[0]["node"]
    answer = yard.ok("POST", f"/v1/nodes/{node}/drain?dry_run=true", {"deadline_s": 0})
    assert answer["dry_run"] is True
    moves = answer["moves"]
    assert isinstance(moves, list)
    assert [(m["job"], m["effect"]) for m in moves] == [("default/one", "moved")]
    assert draining(nodes_of(answer)[0]) is None
    assert yard.ok("GET", "/v1/events")["revision"] == before


def test_set_is_drained_and_undrained_as_one(yard: Yard) -> None:
    yard.load()
    answer = yard.ok("POST", "/v1/sets/leaf/l1/drain", {"deadline_s": 0, "reason": "cables"})
    names = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"]
    assert [node["name"] for node in nodes_of(answer)] == names
    assert all(draining(node) for node in nodes_of(answer))
    assert draining(yard.ok("GET", "/v1/nodes/c1")) is None
    answer = yard.ok("POST", "/v1/sets/rack/r1/undrain")
    assert [node["name"] for node in nodes_of(answer)] == names[:4]
    assert [n["name"] for n in yard.items("/v1/nodes") if draining(n)] == names[4:]
    assert len(nodes_of(yard.ok("POST", "/v1/sets/cdu/cdu-1/drain"))) == 4


def test_node_that_is_not_missed_is_not_fenced(yard: Yard) -> None:
    yard.load()
    said = yard.refused(409, "POST", "/v1/nodes/a1/fence", {"reason": "off"})
    assert "is healthy; only one that is lost, out, suspect is fenced" in said["health"]
    yard.ok("POST", "/v1/nodes/a1/faults", {"xid": 79})
    node = yard.ok("POST", "/v1/nodes/a1/fence", {"reason": "its power was cut"})
    assert (node["health"], node["fenced"]) == ("out", True)
    assert node["why"] == "fenced: its power was cut"
    assert yard.ok("POST", "/v1/nodes/a1/fence") == node


def test_drain_and_fence_of_what_is_not_there_are_refused(yard: Yard) -> None:
    yard.load()
    for verb in ("drain", "undrain", "fence"):
        assert "nope" in yard.refused(404, "POST", f"/v1/nodes/nope/{verb}")[""]
    for verb in ("drain", "undrain"):
        assert "no rack 'r9'" in yard.refused(404, "POST", f"/v1/sets/rack/r9/{verb}")[""]
        assert "kinds of sets" in yard.refused(404, "POST", f"/v1/sets/row/r1/{verb}")[""]
    assert "at least 0" in yard.refused(422, "POST", DRAIN, {"deadline_s": -1})["deadline_s"]
    assert "number" in yard.refused(422, "POST", DRAIN, {"deadline_s": "soon"})["deadline_s"]
    assert "unknown field" in yard.refused(422, "POST", DRAIN, {"deadline": 3})["deadline"]
    assert "dry_run" in yard.refused(422, "POST", f"{DRAIN}?dry_run=perhaps")
    assert draining(yard.ok("GET", "/v1/nodes/a1")) is None
