"""What the API's description shows of heartbeats."""

_UID = "01jgg9rb00x5c3m7kq2v8t4n6w"

BODIES: dict[str, object] = {
    "nothing runs yet": {"session": "n001-7f3a", "boot_id": "b1c2", "pods": []},
    "one pod runs": {
        "session": "n001-7f3a",
        "boot_id": "b1c2",
        "pods": [{"uid": f"{_UID}--0", "attempt": 1, "state": "running"}],
        "acted_on": 5120,
    },
    "one pod has failed": {
        "session": "n001-7f3a",
        "boot_id": "b1c2",
        "pods": [{"uid": f"{_UID}--0", "attempt": 1, "state": "failed", "exit_code": 1}],
    },
}
ANSWER: dict[str, object] = {
    "desired": [
        {
            "uid": f"{_UID}--0",
            "attempt": 1,
            "namespace": "research",
            "job": "research/llama-70b",
            "name": "llama-70b-0",
            "role": "rank",
            "index": 0,
            "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
            "launch": {
                "command": ["python", "train.py"],
                "env": {"OMP_NUM_THREADS": "4"},
                "ranks": [0, 1, 2, 3, 4, 5, 6, 7],
                "world_size": 1024,
                "node_rank": 0,
                "nodes": 128,
                "master_addr": "n001",
                "master_port": 29500,
                "ib_hca": "=mlx5_0,mlx5_3",
                "checkpoint": {"step": 12000, "uri": "s3://bucket/run/12000"},
                "strict": False,
                "fence_after_s": None,
            },
        }
    ],
    "stopping": [{"uid": f"{_UID}--5", "attempt": 1}],
    "ignored": [
        {
            "uid": f"{_UID}--7",
            "attempt": 1,
            "message": "attempt 1 is over; the pod is in attempt 2",
        }
    ],
    "logs": [
        {
            "id": 4711,
            "uid": f"{_UID}--0",
            "attempt": 1,
            "process": 0,
            "stream": "out",
            "tail_bytes": 65536,
        }
    ],
    "health": "healthy",
    "epoch": 3,
    "node_revision": 5120,
    "next_s": 1.0,
    "fence_after_s": 280.0,
}
