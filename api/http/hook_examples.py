"""What the API's description shows of hooks and checkpoints."""

_TIME = "2026-01-01T12:00:00.000Z"
_LATER = "2026-01-01T12:00:03.000Z"
_UID = "01jgg9rb00x5c3m7kq2v8t4n6w"

DELIVERY: dict[str, object] = {
    "id": f"{_UID}-519872",
    "kind": "placement.bound",
    "namespace": "research",
    "job": "llama-70b",
    "uid": _UID,
    "url": "https://trainer.example.com/hooks",
    "state": "dead",
    "attempts": 12,
    "created_at": _TIME,
    "due_at": None,
    "asked_at": None,
    "done_at": _LATER,
    "request_id": None,
    "status": 500,
    "error": "answered 500",
}
RETRIED = DELIVERY | {"state": "pending", "attempts": 0, "due_at": _LATER, "done_at": None}
DELIVERIES = {
    "items": [
        DELIVERY
        | {
            "id": f"{_UID}-519936",
            "kind": "checkpoint.requested",
            "state": "delivered",
            "attempts": 1,
            "asked_at": _TIME,
            "request_id": f"{_UID}-8123",
            "status": 202,
            "error": "",
        },
        DELIVERY,
    ],
    "revision": 8124,
    "next": None,
}

CHECKPOINTS = {
    "items": [
        {
            "step": 12100,
            "uri": "s3://bucket/run/12100",
            "tier": "local",
            "nodes": ["n001", "n002"],
            "lost_nodes": ["n001"],
            "exists": True,
            "request_id": f"{_UID}-8123",
            "at": _LATER,
            "revision": 8124,
        },
        {
            "step": 12000,
            "uri": "s3://bucket/run/12000",
            "tier": None,
            "nodes": [],
            "lost_nodes": [],
            "exists": True,
            "request_id": None,
            "at": _TIME,
            "revision": 8001,
        },
    ],
    "revision": 8124,
    "next": None,
}
