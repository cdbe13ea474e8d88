"""Rank maps that the API's description shows."""

from api.http.answers import SCHEMAS, Documented

_NODE: dict[str, object] = {
    "pod": "llama-70b-0",
    "node": "n001",
    "node_rank": 0,
    "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
    "ranks": [0, 1, 2, 3, 4, 5, 6, 7],
    "env": {
        "PET_NNODES": "128",
        "PET_NPROC_PER_NODE": "8",
        "PET_NODE_RANK": "0",
        "PET_MASTER_ADDR": "n001",
        "PET_MASTER_PORT": "29500",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    },
}
TORCHRUN: dict[str, object] = {
    "job": "research/llama-70b",
    "nnodes": 128,
    "nproc_per_node": 8,
    "master_addr": "n001",
    "master_port": 29500,
    "nodes": [_NODE],
    "ranks": [
        {
            "rank": 0,
            "node": "n001",
            "gpu": 0,
            "env": {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1024", "MASTER_ADDR": "n001"},
        }
    ],
}
SLURM: dict[str, object] = {
    "job": "research/llama-70b",
    "nodelist": "n[001-128]",
    "nodes": 128,
    "ntasks": 1024,
    "ntasks_per_node": 8,
    "hostfile": "n001\nn001\nn001\nn001\nn001\nn001\nn001\nn001\nn002\n",
    "args": [
        "--nodelist=n[001-128]",
        "--nodes=128",
        "--ntasks=1024",
        "--distribution=arbitrary",
    ],
    "pods": [
        {
            "pod": "llama-70b-0",
            "node": "n001",
            "first_task": 0,
            "tasks": 8,
            "cuda_visible_devices": "0,1,2,3,4,5,6,7",
        }
    ],
}
MEGATRON: dict[str, object] = {
    "job": "research/llama-70b",
    "order": "tp-cp-ep-dp-pp",
    "order_by_flags": True,
    "args": ["--tensor-model-parallel-size", "8", "--pipeline-model-parallel-size", "8"],
    "env": {"TENSOR_MODEL_PARALLEL_SIZE": "8", "WORLD_SIZE": "1024", "MASTER_ADDR": "n001"},
    "nodes": [_NODE],
}
NCCL: dict[str, object] = {
    "job": "research/llama-70b",
    "node_type": "hgx-h100",
    "scale_up": "node",
    "rails": 8,
    "env": {"NCCL_CROSS_NIC": "0", "NCCL_PXN_DISABLE": "0"},
    "pods": [
        {
            "pod": "llama-70b-0",
            "node": "n001",
            "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
            "rails": [0, 1, 2, 3, 4, 5, 6, 7],
            "dead_rails": [],
            "ib_hca": None,
        }
    ],
    "groups": {
        "pp": {
            "count": 128,
            "size": 8,
            "crosses": {"block": 0, "leaf": 0, "node": 128},
            "rail_true": True,
            "bottleneck": "rail",
            "bytes_per_step": 1.07e9,
        }
    },
}
TEXTS = {
    "hostfile": "n001 slots=8\nn002 slots=8\n",
    "rankfile": "rank 0=n001 slot=0-13\nrank 1=n001 slot=14-27\n",
}
MODELS = ("Placement", "Torchrun", "SlurmMap", "MegatronMap", "NcclHints")


def placement_also(placement: object) -> Documented:
    """The answers in all formats, beside the one that `answers` describes."""
    maps = {
        "json": placement,
        "torchrun": TORCHRUN,
        "slurm": SLURM,
        "megatron": MEGATRON,
        "nccl": NCCL,
    }
    return {
        200: {
            "description": "The placement, in the format that was asked for.",
            "content": {
                "application/json": {
                    "schema": {"anyOf": [{"$ref": f"{SCHEMAS}{name}"} for name in MODELS]},
                    "examples": {
                        name: {"summary": f"format={name}", "value": value}
                        for name, value in maps.items()
                    },
                },
                "text/plain": {
                    "schema": {"type": "string"},
                    "examples": {
                        name: {"summary": f"format={name}", "value": value}
                        for name, value in TEXTS.items()
                    },
                },
            },
        }
    }
