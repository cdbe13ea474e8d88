"""Bodies of requests that the API's description shows."""

LLAMA: dict[str, object] = {
    "name": "llama-70b",
    "namespace": "research",
    "priority": 100,
    "gpu": "H100-80GB",
    "parallelism": {"tp": 8, "pp": 8, "dp": 16},
    "topology": [{"group": "pp", "within": "leaf", "mode": "required"}],
    "model": {
        "params": 70e9,
        "layers": 80,
        "hidden": 8192,
        "seq": 4096,
        "micro_batch": 1,
        "global_batch": 1024,
    },
    "duration_s": 86400.0,
}
WEIGHED: dict[str, object] = {
    "name": "weighed",
    "parallelism": {"tp": 8, "pp": 4, "dp": 8},
    "axis_weights": {"dp": 10.0, "pp": 1.0},
}
RING: dict[str, object] = {
    "name": "ring",
    "roles": [
        {
            "name": "worker",
            "replicas": 8,
            "gpus": 8,
            "ring": True,
            "parts": {
                "size": 4,
                "count": 2,
                "min": 1,
                "topology": [{"within": "rack", "mode": "required"}],
            },
        }
    ],
}
SERVERS: dict[str, object] = {
    "name": "servers",
    "roles": [
        {"name": "ps", "replicas": 2, "cpu": 8.0, "memory": 32.0},
        {"name": "worker", "replicas": 4, "gpus": 8, "decides": True},
    ],
    "run": {
        "env": {"SERVERS": "$(hosts.ps)", "INDEX": "$(pod.index)"},
        "roles": {
            "ps": {"command": ["python", "serve.py"]},
            "worker": {"command": ["python", "train.py"], "after": {"ps": 2}},
        },
    },
}

JOB_BODIES = {
    "a parallel job": LLAMA,
    "one that knows its traffic": WEIGHED,
    "a job of roles": RING,
    "roles that run something else each": SERVERS,
}
JOB_PATCHES: dict[str, object] = {
    "more time, sooner": {"priority": 200, "duration_s": 172800.0},
    "fewer members": {"roles": [{"name": "worker", "replicas": 4}]},
    "only if nobody else changed it": {"queue": "research", "revision": 8123},
}
BATCH_BODIES: dict[str, object] = {
    "two jobs": {"jobs": [LLAMA, RING]},
    "one ends and one starts": {"delete": ["research/llama-70b"], "jobs": [RING]},
}
STATUS_BODIES = {
    "it runs": {"attempt": 1, "state": "running"},
    "it failed, and this one is meant": {
        "attempt": 1,
        "state": "failed",
        "exit_code": 1,
        "uid": "01jgg9rb00x5c3m7kq2v8t4n6w--0",
    },
    "it has ended": {"attempt": 1, "state": "succeeded", "exit_code": 0},
}
CORDON_BODIES = {"with a reason": {"reason": "fan 3 is loud"}}
NOTHING_BODIES: dict[str, object] = {"an empty object": {}}
QUEUE_BODIES: dict[str, object] = {
    "a queue with a quota": {"name": "research", "quota_gpus": 512},
    "a queue below it, limited by model": {
        "name": "research-vision",
        "parent": "research",
        "limit_by_model": {"H100-80GB": 128},
        "max_pending": 100,
    },
}
QUEUE_PUTS: dict[str, object] = {
    "all that is stated of it": {"quota_gpus": 512, "limit_gpus": 1024, "namespaces": ["research"]}
}
QUEUE_PATCHES: dict[str, object] = {
    "another limit": {"limit_gpus": 2048},
    "no new jobs, and none starts": {"closed": True},
}
POLICY_BODIES = {
    "the whole policy": {
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
        "spare_pool": {},
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
}
CLOCK_BODIES = {"a minute": {"advance_s": 60}}
FOUR_NODES = """\
cluster: demo
levels: [block, leaf, rack, node]
scale_up: node
nodes:
  - {names: "n[001-004]", type: hgx-h100, block: b1, leaf: l1, rack: r01, labels: {zone: a}}
racks:
  - {names: r01, power_kw: 45, cdu: cdu-1}
"""
INVENTORY = {
    "four nodes in a rack": FOUR_NODES,
    "switches and nodes of Slurm": """\
SwitchName=leaf1 Nodes=n[001-004]
SwitchName=leaf2 Nodes=n[005-008]
SwitchName=spine Switches=leaf[1-2]
NodeName=n[001-008] CPUs=112 RealMemory=2000000 Gres=gpu:h100:8
""",
    "a table of hosts": """\
host,block,leaf,model,gpus
n001,b1,l1,H100,8
n002,b1,l1,H100,8
""",
}
