"""What the API's description shows: one cluster, one job, as requests and answers have them."""

from typing import Any

from api.http.example_bodies import LLAMA, RING

_TIME = "2026-01-01T12:00:00.000Z"
_UID = "01jgg9rb00x5c3m7kq2v8t4n6w"
_DOMAINS = {"block": "b1", "leaf": "l1", "rack": "r01"}
_RULE = {"group": "pp", "within": "leaf", "mode": "required"}


def _job(**changes: object) -> dict[str, object]:
    return {
        "namespace": "research",
        "name": "llama-70b",
        "uid": _UID,
        "revision": 8123,
        "state": "running",
        "reason": None,
        "message": "",
        "queue": "default",
        "priority": 100,
        "attempt": 1,
        "minimum": 128,
        "members": 128,
        "running": 128,
        "gpus": 1024,
        "preemptible": True,
        "if_never_fits": "refuse",
        "submitted_at": _TIME,
        "bound_at": "2026-01-01T12:00:00.005Z",
        "started_at": "2026-01-01T12:00:09.250Z",
        "finished_at": None,
        "expected_start": None,
        "held": False,
        "mismatch": "",
        "evicting": None,
        "recovering": None,
        "crashes": 0,
        "saved": None,
        "rules_broken": [],
        "node_type": "hgx-h100",
        "gpus_per_pod": 8,
        "never": False,
        "spec": LLAMA,
    } | changes


def _page(*items: object) -> dict[str, object]:
    return {"items": list(items), "revision": 8123, "next": None}


JOB = _job()
JOBS = _page(JOB)
CANCELLED = _job(state="cancelled", running=0, finished_at="2026-01-01T18:00:00.000Z")

CHANGED = _job(priority=200, spec=LLAMA | {"priority": 200, "duration_s": 172800.0})

BATCH: dict[str, object] = {
    "items": [
        {"status": 201, "job": _job(spec=RING, name="ring")},
        {
            "status": 422,
            "errors": [
                {"path": "topology[0].within", "message": "never fits, even with every node empty"}
            ],
        },
    ],
    "deleted": [{"status": 200, "job": CANCELLED}],
}

_POD: dict[str, object] = {
    "name": "llama-70b-0",
    "role": "rank",
    "index": 0,
    "node": "n001",
    "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
    "ranks": [0, 1, 2, 3, 4, 5, 6, 7],
    "domains": _DOMAINS,
}
POD = _POD | {
    "namespace": "research",
    "job": "research/llama-70b",
    "state": "running",
    "uid": f"{_UID}--0",
    "attempt": 1,
    "exit_code": None,
    "revision": 8123,
}
PODS = _page(POD)

PLACEMENT = {
    "job": "research/llama-70b",
    "attempt": 1,
    "revision": 8123,
    "search": "exact",
    "gap": None,
    "regret": 1.0,
    "inter_node_s": 0.14,
    "exposed_s": 0.24,
    "assumed": False,
    "cost_table": "2026-12-01",
    "node_type": "hgx-h100",
    "gpus_per_pod": 8,
    "pods": [_POD],
    "groups": {
        "pp": {
            "count": 128,
            "size": 8,
            "spans": {"leaf": {"max": 1, "mean": 1.0, "one": 128, "least_possible": 1}},
            "rail_true": True,
            "rail_true_groups": 128,
            "bytes_per_step": 1.07e9,
            "seconds": 0.02,
            "exposed_s": 0.01,
            "bottleneck": "rail",
        }
    },
}
VERDICT = {
    "fits": False,
    "when": "not_now",
    "code": "rule",
    "rule": _RULE,
    "message": "needs 16 pods of 8 GPUs each, pp within leaf, required; leaf 'l3' lacks 4 nodes",
    "nearest": {"level": "leaf", "domain": "l3", "lacks": {"nodes": 4, "gpus": 32}},
    "set_aside": {"cordoned": 3, "gpus_in_use": 12},
    "holders": [
        {
            "job": "default/small-7",
            "gpus": 32,
            "expected_end": "2026-01-01T16:00:00.000Z",
            "hidden": 0,
            "more": 0,
        }
    ],
    "expected_start": "2026-01-01T16:00:00.000Z",
    "changes": [
        {
            "kind": "finish",
            "message": "when 'default/small-7' ends (32 GPUs)",
            "verified": True,
            "job": "default/small-7",
            "jobs": ["default/small-7"],
            "hidden": 0,
            "gpus": 32,
            "expected_end": "2026-01-01T16:00:00.000Z",
        },
        {
            "kind": "relax",
            "message": "relax the rule 'pp within leaf, required' to block",
            "verified": True,
            "rules": [{"role": None, "before": _RULE, "after": _RULE | {"within": "block"}}],
        },
    ],
    "changes_bounded": False,
    "ahead": 0,
    "fitting": 12,
    "wanted": 16,
    "search": "exact",
    "domains": {},
    "rules_broken": [],
}
DRY_RUN = VERDICT | {
    "fits": True,
    "when": "now",
    "code": None,
    "rule": None,
    "message": "fits now",
    "nearest": None,
    "set_aside": {},
    "holders": [],
    "expected_start": None,
    "changes": [],
    "fitting": 0,
    "wanted": 0,
    "placement": PLACEMENT,
}

NODE: dict[str, object] = {
    "name": "n001",
    "type": "hgx-h100",
    "gpu": "H100-80GB",
    "gpus": 8,
    "gpus_free": 0,
    "cpus": 112.0,
    "memory_gib": 2048.0,
    "health": "healthy",
    "why": "",
    "since": None,
    "fenced": False,
    "has_agent": True,
    "faults": [],
    "lemon": False,
    "quarantined_until": None,
    "mismatch": "",
    "cordoned": None,
    "draining": None,
    "domains": _DOMAINS,
    "labels": {"zone": "a"},
    "taints": [],
    "pods": 1,
    "revision": 8123,
}
CORDONED = NODE | {"cordoned": {"reason": "fan 3 is loud", "by": "", "at": _TIME}}
NODES = _page(NODE)

QUEUE: dict[str, object] = {
    "name": "research",
    "parent": None,
    "quota_gpus": 512,
    "limit_gpus": 1024,
    "quota_by_model": {},
    "limit_by_model": {"H200-141GB": 256},
    "weight": 1.0,
    "max_priority": 1000,
    "max_pending": 500,
    "namespaces": ["research"],
    "closed": False,
    "used_gpus": 576,
    "used_by_model": {"H100-80GB": 512, "H200-141GB": 64},
    "borrowed_gpus": 64,
    "lent_gpus": 0,
    "share": 0.140625,
    "pending": 2,
    "running": 11,
    "revision": 8123,
}
QUEUES = _page(QUEUE)

USAGE = _page(
    {
        "month": "2026-12",
        "queue": "research",
        "namespace": None,
        "job": None,
        "uid": None,
        "gpu": "H100-80GB",
        "gpu_seconds": 1_209_600.0,
        "gpu_hours": 336.0,
    }
)

EVENTS = _page(
    {
        "revision": 8123,
        "at": _TIME,
        "kind": "job.bound",
        "subject": {"kind": "job", "namespace": "research", "name": "llama-70b", "uid": _UID},
        "message": "128 pods on 128 nodes",
        "body": {"attempt": 1},
    }
)

STREAM = """\
retry: 1000
: revision 8122

id: 8123
data: {"revision":8123,"at":"2026-01-01T12:00:00.000Z","kind":"job.bound","subject":{"kind":"job",\
"namespace":"research","name":"llama-70b","uid":"01jgg9rb00x5c3m7kq2v8t4n6w"},\
"message":"128 pods on 128 nodes","body":{"attempt":1}}

: revision 8123

"""

_RACK: dict[str, object] = {
    "level": "rack",
    "name": "r01",
    "parent": "l1",
    "nodes": 4,
    "nodes_free": 1,
    "gpus": 32,
    "gpus_free": 8,
    "jobs": 1,
    "health": {"healthy": 4},
}
DOMAINS = _page(_RACK)
RACKS = _page(_RACK | {"power_kw": 45.0, "power_used_kw": 30.6, "cdu": "cdu-1"})

TOPOLOGY = {
    "cluster": "demo",
    "levels": ["block", "leaf", "rack", "node"],
    "scale_up": "node",
    "levels_detail": [{"name": "block", "domains": 1}, {"name": "node", "domains": 128}],
    "nodes": 128,
    "gpus": 1024,
    "tree": [
        {
            "level": "block",
            "name": "b1",
            "nodes": 128,
            "nodes_free": 32,
            "gpus": 1024,
            "gpus_free": 256,
            "children": [],
        }
    ],
    "revision": 8123,
}
OVERVIEW = {
    "cluster": "demo",
    "revision": 8123,
    "nodes": {"total": 128, "usable": 127, "free": 32},
    "gpus": {"total": 1024, "used": 768, "free": 248, "aside": 8},
    "health": {"healthy": 128},
    "aside": {"cordoned": 1},
    "jobs": {"running": 6, "pending": 2},
    "largest_gangs": [
        {
            "node_type": "hgx-h100",
            "gpus_per_pod": 8,
            "whole_nodes": True,
            "cluster": {"pods": 31, "gpus": 248},
            "within": [
                {"level": "block", "domain": "b1", "pods": 31, "gpus": 248},
                {"level": "leaf", "domain": "l4", "pods": 28, "gpus": 224},
                {"level": "rack", "domain": "r25", "pods": 4, "gpus": 32},
                {"level": "node", "domain": "n100", "pods": 1, "gpus": 8},
            ],
        }
    ],
    "queues": [
        {
            "name": "default",
            "quota_gpus": None,
            "limit_gpus": None,
            "used_gpus": 768,
            "pending": 2,
        }
    ],
}
IMPORTED = {
    "format": "slurm",
    "created": 1,
    "updated": 1,
    "unchanged": 126,
    "removed": 0,
    "kept": 0,
    "warnings": [
        "nothing says what GPUs there are in node 'n128': taken as none; name a node type for them"
    ],
    "cluster_changes": [{"field": "levels", "from": "leaf, node", "to": "block, leaf, node"}],
    "changes": [
        {
            "node": "n017",
            "change": "updated",
            "fields": [{"field": "leaf", "from": "l1", "to": "l2"}],
        },
        {
            "node": "n128",
            "change": "created",
            "fields": [
                {"field": "type", "from": None, "to": "unknown"},
                {"field": "leaf", "from": None, "to": "l4"},
            ],
        },
    ],
    "changes_left_out": 0,
    "revision": 8123,
}
POLICY = {
    "suspect_after_s": 30.0,
    "lost_after_s": 300.0,
    "breaker_share": 0.2,
    "reserve_after_s": 600.0,
    "reserve_after_run_times": 1.0,
    "start_by_run_times": 3.0,
    "reserve_run_s_max": 21600.0,
    "reserve_at_once_share": 0.1,
    "order": "fair_share",
    "ageing": 0.2,
    "assumed_duration_s": 86400.0,
    "min_run_s": 0.0,
    "spare_evicted_s": 300.0,
    "restart_cost_s": 300.0,
    "evict_share": 1.0,
    "breaker_window_s": 600.0,
    "breaker_reset_s": 0.0,
    "crash_loop_s": 300.0,
    "spare_pool": {"leaf": 1},
    "lend_spares": True,
    "lemon_faults": 3,
    "lemon_factor": 5.0,
    "lemon_window_s": 2592000.0,
    "quarantine_s": 3600.0,
    "flap_count": 3,
    "flap_window_s": 3600.0,
    "escalate_nodes": 3,
    "priorities": {"high": 1000, "low": -1000},
    "never_preempt": ["low"],
    "paused": False,
}
PAUSED, RESUMED = {"paused": True}, {"paused": False}
CLOCK = {"now": _TIME}
LIVE = {"status": "ok"}
READY = {"status": "ready", "checks": {"database": "ok", "runner": "ok"}}
METRICS = '# TYPE podyard_gpus gauge\npodyard_gpus{state="free"} 248.0\n'

Also = dict[int | str, dict[str, Any]]

SUBMIT_ALSO: Also = {
    200: {
        "description": "The job that its key made before; or, with `dry_run`, the verdict.",
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        {"$ref": "#/components/schemas/DryRun"},
                        {"$ref": "#/components/schemas/Job"},
                    ]
                },
                "examples": {
                    "dry_run": {"summary": "fits", "value": DRY_RUN},
                    "does_not_fit": {"summary": "does not fit now", "value": VERDICT},
                    "known_key": {"summary": "the key is known", "value": JOB},
                },
            }
        },
    }
}
NOT_READY_ALSO: Also = {
    503: {
        "description": "They are not, yet.",
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/Ready"},
                "example": {
                    "status": "not_ready",
                    "checks": {"database": "ok", "runner": "is not up yet"},
                },
            }
        },
    }
}
