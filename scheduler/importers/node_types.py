"""Node types as inventories write them: a built-in one, changed or not, or one of their own."""

from dataclasses import replace

from scheduler.importers.fields import Fields, as_text, label_key_problem
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.model.node import NodeType
from scheduler.model.resources import MAX_GPUS_PER_NODE, Resources

FIELDS = (
    "gpu",
    "gpus",
    "rails",
    "rail_of_gpu",
    "nic_gbps",
    "scale_up",
    "scale_up_gbps",
    "power_kw",
    "cpus",
    "memory_gib",
    "nvme_gb",
    "resources",
    "source",
)

_GBPS_MAX = 1e6
_POWER_KW_MAX = 1e3
_CPUS_MAX = 1e5
_MEMORY_GIB_MAX = 1e6
_COUNT_MAX = 2**53
"""The largest whole number that every JSON reader keeps exactly."""


def default_rails(gpus: int, rails: int) -> tuple[int, ...]:
    """The rail next to each GPU where no table says; neighbours share one where NICs are fewer."""
    if 0 < rails < gpus:
        return tuple(gpu * rails // gpus for gpu in range(gpus))
    return tuple(range(gpus))


def read_type(name: str, fields: Fields) -> NodeType:
    """A type as an inventory writes it; what it leaves out is taken from the built-in of its name.

    `scale_up: null` means the cluster's own level.
    """
    fields.allow(FIELDS)
    base = BUILT_IN.get(name) or NodeType(name=name, gpu="", gpus=0)
    gpus = fields.integer("gpus", base.gpus, 0, MAX_GPUS_PER_NODE)
    gpu = fields.text("gpu", base.gpu if gpus else "")
    if name not in BUILT_IN and fields.values.get("gpus") is None:
        fields.refuse("gpus", f"missing; write how many GPUs a node of type '{name}' has, or 0")
    elif bool(gpu) != bool(gpus) and _are_read(fields, gpu, gpus):
        fields.refuse("gpu", f"a type with {gpus} GPUs {'names its' if gpus else 'has no'} model")
    rails = fields.integer("rails", base.rails, 0, MAX_GPUS_PER_NODE)
    return replace(
        base,
        gpu=gpu,
        gpus=gpus,
        rails=rails,
        rail_of_gpu=_rail_of_gpu(fields, gpus, rails, base),
        nic_gbps=fields.number("nic_gbps", base.nic_gbps, 0, _GBPS_MAX),
        scale_up=fields.name("scale_up") if "scale_up" in fields else base.scale_up,
        scale_up_gbps=fields.number("scale_up_gbps", base.scale_up_gbps, 0, _GBPS_MAX),
        power_w=round(1e3 * fields.number("power_kw", base.power_w / 1e3, 0, _POWER_KW_MAX)),
        capacity=_capacity(fields, base.capacity),
        nvme_gb=fields.integer("nvme_gb", base.nvme_gb, 0, _COUNT_MAX),
        source=fields.text("source", base.source),
    )


def _are_read(fields: Fields, gpu: str, gpus: int) -> bool:
    """Whether both are as written or left out, and not defaults for what was refused."""
    model, count = fields.values.get("gpu"), fields.values.get("gpus")
    return (model is None or as_text(model) == gpu) and (count is None or count == gpus)


def _rail_of_gpu(fields: Fields, gpus: int, rails: int, base: NodeType) -> tuple[int, ...]:
    table = fields.values.get("rail_of_gpu")
    if table is None:
        unchanged = (gpus, rails) == (base.gpus, base.rails)
        return base.rail_of_gpu if unchanged else default_rails(gpus, rails)
    highest = (rails or MAX_GPUS_PER_NODE) - 1
    if (
        not isinstance(table, list)
        or len(table) != gpus
        or not all(type(rail) is int and 0 <= rail <= highest for rail in table)
    ):
        fields.refuse("rail_of_gpu", f"must be a list of {gpus} whole numbers from 0 to {highest}")
        return default_rails(gpus, rails)
    return tuple(rail for rail in table if isinstance(rail, int))


def _capacity(fields: Fields, base: Resources) -> Resources:
    other = base.other
    if "resources" in fields:
        inner = fields.mapping("resources")
        for key in inner.values:
            problem = label_key_problem(key)
            if problem is not None:
                inner.refuse(key, problem)
        amounts = {key: inner.integer(key, 0, 0, _COUNT_MAX) for key in sorted(inner.values)}
        other = tuple((key, amount) for key, amount in amounts.items() if amount)
    return Resources(
        cpu_milli=round(1e3 * fields.number("cpus", base.cpu_milli / 1e3, 0, _CPUS_MAX)),
        memory_mib=round(
            1024 * fields.number("memory_gib", base.memory_mib / 1024, 0, _MEMORY_GIB_MAX)
        ),
        other=other,
    )
