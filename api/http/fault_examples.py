"""What the API's description shows of faults, drains and fences."""

from api.http.examples import NODE

_TIME = "2026-01-01T12:00:00.000Z"
_SOON = "2026-01-01T12:10:00.000Z"

FAULT: dict[str, object] = {
    "id": 8120,
    "node": "n001",
    "code": "xid_79",
    "action": "replace",
    "at": _TIME,
    "message": "seen in the kernel log",
    "gpus": [3],
    "rail": None,
    "set": None,
    "reported_by": "",
    "reported_at": _TIME,
    "cleared_at": None,
    "cleared_by": "",
}
CLEARED = FAULT | {"cleared_at": _SOON}
FAULTS = {"items": [FAULT], "revision": 8123, "next": None}
OF_SET: dict[str, object] = {
    "items": [
        FAULT
        | {
            "code": "switch_down",
            "gpus": [],
            "message": "",
            "set": {"kind": "leaf", "name": "l1"},
        }
    ],
    "created": 1,
}

FAULT_BODIES: dict[str, object] = {
    "a GPU that fell off the bus": {"xid": 79, "gpus": [3], "message": "seen in the kernel log"},
    "a machine that is gone": {"code": "node_lost", "message": "no answer from its BMC"},
    "a rail": {"code": "rail_down", "rail": 5},
    "some time ago": {"code": "ecc_dbe", "gpus": [0], "at": "2026-01-01T11:58:00Z"},
}
SET_BODIES: dict[str, object] = {
    "a leaf switch": {"code": "switch_down"},
    "one rail of all": {"code": "rail_down", "rail": 5},
}

_DRAINING = NODE | {
    "draining": {
        "deadline": _SOON,
        "at": _TIME,
        "reason": "fan 3 is loud",
        "by": "",
        "done": False,
    }
}
DRAINED: dict[str, object] = {
    "dry_run": False,
    "deadline": _SOON,
    "nodes": [_DRAINING],
    "leaving": [
        {
            "job": "research/llama-70b",
            "pods": ["llama-70b-0"],
            "gpus": 8,
            "nodes": ["n001"],
            "saves_first": True,
        }
    ],
    "hidden": 0,
    "moves": [],
    "settled": True,
}
UNDRAINED: dict[str, object] = {"nodes": [NODE]}
DRAIN_BODIES: dict[str, object] = {
    "in ten minutes at the latest": {"deadline_s": 600, "reason": "fan 3 is loud"},
    "when there is a place for them": {"reason": "fan 3 is loud"},
    "at once": {"deadline_s": 0},
}

FENCED = NODE | {
    "health": "lost",
    "why": "fenced: its power was cut",
    "since": _TIME,
    "fenced": True,
    "pods": 0,
    "gpus_free": 8,
}
FENCE_BODIES: dict[str, object] = {"with a reason": {"reason": "its power was cut"}, "without": {}}

BREAKER: dict[str, object] = {"reset_at": _TIME}

BREAKER_VIEW: dict[str, object] = {
    "state": "open",
    "failing": 512,
    "nodes": 2048,
    "share": 0.25,
    "limit": 0.2,
    "window_s": 600.0,
    "since": _TIME,
    "closes_at": _TIME,
    "reset_at": None,
    "failed": ["n001", "n002"],
    "held": {"jobs": 31, "gpus": 3968},
    "revision": 8123,
}

SPARES: dict[str, object] = {
    "nodes": 2048,
    "faults": 122,
    "span_s": 2_592_000.0,
    "faults_per_node_day": 0.001986,
    "repairs": 118,
    "repair_s": 90_000.0,
    "is_assumed": False,
    "need": 9,
    "claimed": 4,
    "lent": 1,
    "levels": [{"level": "leaf", "domains": 64, "nodes": 32, "need": 1}],
    "pools": [
        {
            "level": "leaf",
            "domain": "l1",
            "nodes": 32,
            "wanted": 1,
            "kept": 1,
            "lent": 0,
            "free": 3,
            "need": 1,
        },
    ],
    "revision": 8123,
}
