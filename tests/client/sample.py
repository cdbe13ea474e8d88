"""Objects as the service shows them: a cluster of 200 nodes, jobs, pods, verdicts."""

from client.shapes import Domain, Event, Job, Node, Placement, Pod, Queue, Topology, Verdict

NOW_S = 1_780_315_200.0
"""2026-06-01T12:00:00Z, the moment that all ages are counted from."""

LEVELS = ["block", "leaf", "rack", "node"]
NODES_PER_RACK = 4
RACKS_PER_LEAF = 8


def make_node(number: int, *, free: int = 8, health: str = "healthy") -> Node:
    """Node `number`, counted from 1, in racks of 4 and leaves of 32."""
    rack = (number - 1) // NODES_PER_RACK
    leaf = rack // RACKS_PER_LEAF
    return {
        "name": f"n{number:03d}",
        "type": "hgx-h100",
        "gpu": "H100-80GB",
        "gpus": 8,
        "gpus_free": free,
        "cpus": 112.0,
        "memory_gib": 2048.0,
        "health": health,
        "cordoned": None,
        "draining": None,
        "domains": {
            "block": f"b{leaf // 4 + 1}",
            "leaf": f"l{leaf + 1}",
            "rack": f"r{rack + 1:02d}",
        },
        "labels": {"zone": "a" if number % 2 else "b"},
        "taints": [],
        "pods": 0 if free == 8 else 1,
        "revision": 7,
    }


def make_nodes(count: int = 200) -> list[Node]:
    """Nodes of which every third is in use, one is cordoned, one lost and one draining."""
    nodes = [make_node(n, free=0 if n % 3 == 0 else 8) for n in range(1, count + 1)]
    if count > 20:
        nodes[4]["cordoned"] = {
            "reason": "fan 3 is loud",
            "by": "anna",
            "at": "2026-06-01T09:00:00.000Z",
        }
        nodes[9]["health"] = "lost"
        nodes[14]["draining"] = {"deadline": None}
        nodes[14]["taints"] = [{"key": "team", "value": "vision", "effect": "NoSchedule"}]
    return nodes


def make_job(name: str = "llama-70b", **changes: object) -> Job:
    job: Job = {
        "namespace": "research",
        "name": name,
        "uid": f"uid-{name}",
        "revision": 41,
        "state": "running",
        "reason": None,
        "message": "",
        "queue": "research",
        "priority": 100,
        "attempt": 1,
        "minimum": 16,
        "members": 16,
        "running": 16,
        "gpus": 128,
        "preemptible": True,
        "if_never_fits": "refuse",
        "submitted_at": "2026-06-01T11:56:48.000Z",
        "bound_at": "2026-06-01T11:56:48.012Z",
        "started_at": "2026-06-01T11:57:00.000Z",
        "finished_at": None,
        "expected_start": None,
        "rules_broken": [],
        "node_type": "hgx-h100",
        "gpus_per_pod": 8,
        "never": False,
        "spec": {
            "name": name,
            "namespace": "research",
            "parallelism": {"tp": 8, "cp": 1, "pp": 4, "dp": 4, "ep": 1},
            "topology": [{"group": "pp", "within": "leaf", "mode": "required"}],
        },
    }
    job.update(changes)  # type: ignore[typeddict-item]  # a test names the fields
    return job


def make_waiting_job(name: str = "big-1", **changes: object) -> Job:
    waiting = {
        "state": "pending",
        "reason": "rule",
        "message": "needs 16 nodes in one leaf; the nearest, 'l3', has 12",
        "attempt": 0,
        "running": 0,
        "bound_at": None,
        "started_at": None,
        "node_type": None,
    }
    return make_job(name, **{**waiting, **changes})


def make_jobs() -> list[Job]:
    """One job of each kind that a list may show."""
    roles = {"roles": [{"name": "trainer", "replicas": 4, "min": 3, "gpus": 8}]}
    return [
        make_job(),
        make_job("eval", gpus=4, members=1, running=1, minimum=1, priority=0, queue="default"),
        make_waiting_job(),
        make_waiting_job("huge", never=True, submitted_at="2026-05-30T10:00:00.000Z"),
        make_job(
            "rl-ppo",
            state="bound",
            spec=roles,
            gpus=32,
            members=4,
            minimum=3,
            running=2,
            rules_broken=[{"group": "job", "within": "leaf"}],
            submitted_at="2026-06-01T11:59:30.000Z",
        ),
        make_job("bert", state="succeeded", running=0, submitted_at="2026-05-20T10:00:00.000Z"),
    ]


def make_pods(count: int = 16, *, job: str = "llama-70b", first_node: int = 1) -> list[Pod]:
    """Whole-node pods on consecutive nodes."""
    pods: list[Pod] = []
    for index in range(count):
        node = make_node(first_node + index)
        pods.append(
            {
                "namespace": "research",
                "job": f"research/{job}",
                "name": f"{job}-{index}",
                "role": "rank",
                "index": index,
                "node": node["name"],
                "gpus": list(range(8)),
                "ranks": list(range(8 * index, 8 * index + 8)),
                "state": "running",
                "uid": f"uid-{job}--{index}",
                "attempt": 1,
                "exit_code": None,
                "domains": node["domains"],
                "revision": 42,
            }
        )
    return pods


def make_placement(count: int = 16) -> Placement:
    return {
        "job": "research/llama-70b",
        "attempt": 1,
        "revision": 42,
        "search": "exact",
        "regret": None,
        "pods": make_pods(count),
        "groups": {
            "tp": {
                "count": 16,
                "size": 8,
                "spans": {
                    "leaf": {"max": 1, "mean": 1.0},
                    "rack": {"max": 1, "mean": 1.0},
                },
                "rail_true": True,
            },
            "pp": {
                "count": 32,
                "size": 4,
                "spans": {
                    "leaf": {"max": 1, "mean": 1.0},
                    "rack": {"max": 2, "mean": 1.25},
                },
                "rail_true": False,
                "rail_true_groups": 30,
            },
        },
    }


def make_verdict(**changes: object) -> Verdict:
    verdict: Verdict = {
        "fits": False,
        "when": "not_now",
        "code": "rule",
        "rule": {"group": "job", "within": "leaf", "mode": "required"},
        "message": "needs 16 nodes in one leaf; the nearest, 'l3', has 12",
        "nearest": {"level": "leaf", "domain": "l3", "lacks": {"nodes": 4, "gpus": 32}},
        "set_aside": {"no_free_gpus": 20, "cordoned": 3},
        "holders": [
            {"job": "default/small-7", "gpus": 32, "expected_end": "2026-06-01T14:30:00Z"},
            {"job": None, "gpus": 24, "expected_end": None, "hidden": 3, "more": 0},
        ],
        "expected_start": "2026-06-01T14:30:00Z",
        "changes": [
            {
                "kind": "finish",
                "message": "when 'default/small-7' ends (32 GPUs)",
                "job": "default/small-7",
                "jobs": ["default/small-7"],
                "gpus": 32,
                "expected_end": "2026-06-01T14:30:00Z",
                "verified": True,
            },
            {
                "kind": "uncordon",
                "message": "uncordon 'n005'",
                "nodes": ["n005"],
                "verified": True,
            },
            {
                "kind": "relax",
                "message": "relax the rule 'the job within leaf, required' to block",
                "rules": [
                    {
                        "role": None,
                        "before": {"group": "job", "within": "leaf", "mode": "required"},
                        "after": {"group": "job", "within": "block", "mode": "required"},
                    }
                ],
                "verified": True,
            },
        ],
        "changes_bounded": False,
        "ahead": 2,
        "fitting": 12,
        "wanted": 16,
    }
    verdict.update(changes)  # type: ignore[typeddict-item]  # a test names the fields
    return verdict


def make_topology() -> Topology:
    """Two blocks, seven leaves, 50 racks, 200 nodes."""
    racks = [
        {
            "level": "rack",
            "name": f"r{n:02d}",
            "nodes": 4,
            "nodes_free": n % 5,
            "gpus": 32,
            "gpus_free": (n * 8) % 40,
        }
        for n in range(1, 51)
    ]
    leaves = [
        {
            "level": "leaf",
            "name": f"l{n + 1}",
            "nodes": 4 * len(racks[8 * n : 8 * n + 8]),
            "nodes_free": sum(int(str(r["nodes_free"])) for r in racks[8 * n : 8 * n + 8]),
            "gpus": 32 * len(racks[8 * n : 8 * n + 8]),
            "gpus_free": sum(int(str(r["gpus_free"])) for r in racks[8 * n : 8 * n + 8]),
            "children": racks[8 * n : 8 * n + 8],
        }
        for n in range(7)
    ]
    blocks = [
        {
            "level": "block",
            "name": f"b{n + 1}",
            "nodes": sum(int(str(leaf["nodes"])) for leaf in leaves[4 * n : 4 * n + 4]),
            "nodes_free": sum(int(str(leaf["nodes_free"])) for leaf in leaves[4 * n : 4 * n + 4]),
            "gpus": sum(int(str(leaf["gpus"])) for leaf in leaves[4 * n : 4 * n + 4]),
            "gpus_free": sum(int(str(leaf["gpus_free"])) for leaf in leaves[4 * n : 4 * n + 4]),
            "children": leaves[4 * n : 4 * n + 4],
        }
        for n in range(2)
    ]
    return {
        "cluster": "demo",
        "levels": LEVELS,
        "scale_up": "node",
        "levels_detail": [{"name": "block", "domains": 2}],
        "nodes": 200,
        "gpus": 1600,
        "tree": blocks,  # type: ignore[typeddict-item]  # built from plain dicts
        "revision": 50,
    }


def make_domain(number: int, *, level: str = "leaf", **changes: object) -> Domain:
    domain: Domain = {
        "level": level,
        "name": f"l{number}",
        "parent": "b1",
        "nodes": 32,
        "nodes_free": 20,
        "gpus": 256,
        "gpus_free": 160,
        "jobs": 3,
        "health": {"healthy": 31, "lost": 1},
    }
    domain.update(changes)  # type: ignore[typeddict-item]  # a test names the fields
    return domain


def make_queues() -> list[Queue]:
    return [
        {
            "name": "default",
            "parent": None,
            "quota_gpus": None,
            "limit_gpus": None,
            "quota_by_model": {},
            "limit_by_model": {},
            "weight": 1.0,
            "max_priority": None,
            "max_pending": None,
            "namespaces": [],
            "closed": False,
            "used_gpus": 4,
            "used_by_model": {"H100-80GB": 4},
            "borrowed_gpus": None,
            "lent_gpus": None,
            "share": 0.00390625,
            "pending": 0,
            "running": 1,
            "revision": 1,
        },
        {
            "name": "research",
            "parent": "root",
            "quota_gpus": 512,
            "limit_gpus": 1024,
            "quota_by_model": {},
            "limit_by_model": {"H200-141GB": 64},
            "weight": 2.5,
            "max_priority": 1000,
            "max_pending": 500,
            "namespaces": ["research", "shared"],
            "closed": True,
            "used_gpus": 160,
            "used_by_model": {"H100-80GB": 128, "H200-141GB": 32},
            "borrowed_gpus": 0,
            "lent_gpus": 352,
            "share": 0.0625,
            "pending": 2,
            "running": 9,
            "revision": 9,
        },
    ]


def make_events() -> list[Event]:
    subject = {"kind": "job", "namespace": "research", "name": "llama-70b", "uid": "uid-llama-70b"}
    return [
        {
            "revision": 31,
            "at": "2026-06-01T11:56:48.000Z",
            "kind": "job.submitted",
            "subject": subject,  # type: ignore[typeddict-item]  # a plain dict
            "message": "submitted to queue 'research'",
            "body": {},
        },
        {
            "revision": 32,
            "at": "2026-06-01T11:56:48.012Z",
            "kind": "job.bound",
            "subject": subject,  # type: ignore[typeddict-item]  # a plain dict
            "message": "16 pods on 16 nodes in leaf 'l1'",
            "body": {},
        },
        {
            "revision": 33,
            "at": "2026-06-01T11:59:50.000Z",
            "kind": "node.cordoned",
            "subject": {"kind": "node", "namespace": None, "name": "n005", "uid": None},
            "message": "fan 3 is loud",
            "body": {},
        },
    ]
