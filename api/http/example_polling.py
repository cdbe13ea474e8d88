"""Examples of what dashboards poll."""

from api.http.examples import OVERVIEW as _TOTALS

OVERVIEW = {
    **_TOTALS,
    "claimed_gpus": 64,
    "faults": {
        "open": {"drain_reset": 1},
        "newest": [
            {
                "id": 8120,
                "node": "n017",
                "code": "gpu_fell_off_bus",
                "action": "drain_reset",
                "at": "2026-12-01T09:10:02.000Z",
                "message": "Xid 79 on GPU 3",
            }
        ],
    },
    "levels": [
        {"level": "block", "empty": 0, "partly": 1, "full": 0, "fragmentation": 1.0},
        {"level": "leaf", "empty": 0, "partly": 2, "full": 2, "fragmentation": 1.0},
        {"level": "rack", "empty": 7, "partly": 1, "full": 24, "fragmentation": 0.0968},
        {"level": "node", "empty": 31, "partly": 0, "full": 97, "fragmentation": 0.0},
    ],
    "power": {"used_kw": 979.2, "total_kw": 1305.6},
    "waiting": [
        {
            "reason": "room",
            "gangs": 2,
            "gpus": 768,
            "job": "research/llama-70b",
            "message": "needs 64 nodes of 8 GPUs; 31 are free",
            "since": "2026-12-01T09:12:44.120Z",
        }
    ],
    "starts": [
        {"job": "research/llama-70b", "gpus": 512, "at": "2026-12-01T11:00:00.000Z"},
    ],
    "scheduler": {
        "ready": True,
        "cycles": 4120,
        "lag_revisions": 0,
        "decide_s": 0.000412,
        "commit_s": 0.0021,
    },
}

MAP = {
    "cluster": "demo",
    "revision": 8123,
    "since": None,
    "levels": [
        {"name": "leaf", "names": ["l1", "l2"], "ends": [2, 3]},
        {"name": "rack", "names": ["r01", "r02", "r03"], "ends": [1, 2, 3]},
    ],
    "scale_up": "node",
    "types": [{"name": "hgx-h100", "gpu": "H100-80GB", "gpus": 8, "power_kw": 10.2}],
    "nodes": ["n001", "n002", "n003"],
    "node_types": [0, 0, 0],
    "use": [[0, "", 8101, "ff", 0], [1, "", 8101, "ff", 8], [2, "cordoned"]],
    "jobs": [
        {
            "id": 8101,
            "job": "research/llama-7b",
            "state": "running",
            "queue": "research",
            "priority": 100,
            "gpus": 16,
        }
    ],
    "claims": [],
    "dead_rails": [{"node": 1, "rails": "4"}],
}

SERIES = {
    "step_s": 15,
    "times": [1796115600, 1796115615],
    "series": {
        "utilisation": {"mean": [0.75, 0.77], "low": [0.75, 0.77], "high": [0.75, 0.77]},
        "wait_s": {"mean": [None, 42.5], "low": [None, 42.5], "high": [None, 42.5]},
    },
}
