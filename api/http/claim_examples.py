"""What the API's description shows of job control, claims and maintenance windows."""

from api.http.examples import JOB

_TIME = "2026-01-01T12:00:00.000Z"
_LATER = "2026-01-01T16:00:00.000Z"

PENDING: dict[str, object] = JOB | {
    "state": "pending",
    "reason": "room",
    "message": "needs 128 nodes; 96 are free",
    "attempt": 0,
    "running": 0,
    "bound_at": None,
    "started_at": None,
    "node_type": None,
}
HELD = PENDING | {"reason": "paused", "message": "held until it is released", "held": True}
SUSPENDING = JOB | {
    "state": "evicting",
    "message": "suspended by its owner",
    "evicting": {
        "then": "suspended",
        "step": "terminating",
        "deadline": None,
        "why": "suspended by its owner",
    },
}
SUSPENDED = PENDING | {"state": "suspended", "reason": None, "message": "suspended by its owner"}
SAVED = JOB | {"saved": {"step": 12000, "uri": "s3://bucket/run/12000", "at": _LATER}}

CHECKPOINT_BODIES: dict[str, object] = {
    "saved by itself": {"step": 12000, "uri": "s3://bucket/run/12000"},
    "copies on its own nodes": {
        "step": 12100,
        "uri": "s3://bucket/run/12100",
        "tier": "local",
        "nodes": ["n001", "n002"],
        "request_id": "r-7",
    },
}

RESERVATION: dict[str, object] = {
    "name": "new-cables",
    "nodes": ["n001", "n002"],
    "starts_at": _TIME,
    "ends_at": _LATER,
    "why": "leaf l1 gets new cables",
    "state": "planned",
    "claimed": 2,
    "revision": 8123,
}
RESERVATIONS = {"items": [RESERVATION], "revision": 8123, "next": None}

RESERVATION_BODIES: dict[str, object] = {
    "two nodes": {
        "name": "new-cables",
        "nodes": ["n[001-002]"],
        "starts_at": "2026-01-01T12:00:00Z",
        "ends_at": "2026-01-01T16:00:00Z",
        "why": "leaf l1 gets new cables",
    },
    "a rack, from now on": {
        "name": "rack-1",
        "within": {"level": "rack", "domain": "r01"},
        "ends_at": "2026-01-02T08:00:00+01:00",
    },
    "a power shelf": {
        "name": "shelf-3",
        "set": {"kind": "power", "name": "shelf-3"},
        "starts_at": "2026-01-03T00:00:00Z",
        "ends_at": "2026-01-04T00:00:00Z",
    },
}

CLAIMS = {
    "items": [
        {
            "uid": "01jgg9rb00x5c3m7kq2v8t4n6w--0",
            "why": "preemption",
            "job": "research/llama-70b",
            "reservation": None,
            "pool": None,
            "node": "n001",
            "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
            "starts_at": None,
            "until": None,
            "role": "rank",
            "index": 0,
            "revision": 8123,
        },
        {
            "uid": "window-new-cables-n002",
            "why": "maintenance",
            "job": None,
            "reservation": "new-cables",
            "pool": None,
            "node": "n002",
            "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
            "starts_at": _TIME,
            "until": _LATER,
            "role": "",
            "index": 0,
            "revision": 8123,
        },
        {
            "uid": "pool-n032",
            "why": "pool",
            "job": None,
            "reservation": None,
            "pool": "leaf/l1",
            "node": "n032",
            "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
            "starts_at": None,
            "until": None,
            "role": "",
            "index": 0,
            "revision": 8123,
        },
    ],
    "revision": 8123,
    "next": None,
}
