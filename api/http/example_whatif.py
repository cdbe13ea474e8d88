"""What the API's description shows of what-ifs."""

from api.http.example_bodies import LLAMA

BODIES: dict[str, object] = {
    "a job while a node is drained": {
        "jobs": [LLAMA],
        "changes": [{"kind": "drain", "nodes": ["n017"]}],
    },
    "a leaf switch is lost": {
        "changes": [{"kind": "lose_switch", "level": "leaf", "domain": "l3"}]
    },
    "more nodes and more quota": {
        "jobs": [LLAMA],
        "changes": [
            {
                "kind": "add_nodes",
                "add": [
                    {
                        "names": "n[129-132]",
                        "type": "hgx-h100",
                        "places": {"block": "b1", "leaf": "l5", "rack": "r33"},
                    }
                ],
            },
            {"kind": "quota", "queue": "default", "quota_gpus": 1024},
        ],
    },
    "a job ends and another goes first": {
        "changes": [
            {"kind": "finish", "job": "default/small-7"},
            {"kind": "priority", "job": "research/eval", "priority": 200},
        ]
    },
}

_PLACE: dict[str, object] = {
    "pods": 128,
    "gpus": 1024,
    "node_type": "hgx-h100",
    "domains": {
        "block": {"count": 1, "names": ["b1"]},
        "leaf": {"count": 4, "names": ["l1", "l2", "l3", "l4"]},
        "node": {"count": 128, "names": ["n001", "n002", "n003"]},
    },
}

ANSWER: dict[str, object] = {
    "revision": 8123,
    "cycles": 2,
    "settled": True,
    "jobs": [
        {
            "job": "research/llama-70b",
            "state": "bound",
            "reason": None,
            "message": "",
            "never": False,
            "expected_start": None,
            "placement": _PLACE,
        }
    ],
    "effects": {"stopped": 1},
    "affected": [
        {
            "job": "default/small-7",
            "effect": "stopped",
            "state": "pending",
            "reason": "room",
            "message": "needs 4 pods of 8 GPUs each; 2 of 4 fit now",
            "gpus": 32,
            "placement": None,
        }
    ],
    "hidden": 0,
    "gpus_before": {"total": 1056, "used": 32, "free": 1024},
    "gpus_after": {"total": 1056, "used": 1024, "free": 16},
}
