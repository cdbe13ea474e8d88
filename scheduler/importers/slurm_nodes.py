"""`NodeName=` lines of slurm.conf: hostlists, GPUs, CPUs, memory, features, state."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.errors import InventoryError
from scheduler.importers.fields import label_value_problem
from scheduler.importers.hostlist import NAMES_MAX, expand
from scheduler.importers.machines import NAMELESS_GPU, Machine, gpu_count_problem
from scheduler.importers.options import check_nodes
from scheduler.importers.refusals import Refusals, first_of
from scheduler.importers.slurm_lines import Entry
from scheduler.model.node import Taint
from scheduler.model.resources import Resources

NODE_KEYS = frozenset(
    (
        *("nodename", "nodehostname", "nodeaddr", "bcastaddr", "port", "reason", "state"),
        *("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"),
        *("cpus", "procs", "corespeccount", "cpuspeclist", "cpubind", "restrictedcorespergpu"),
        *("realmemory", "memspeclimit", "tmpdisk", "gres", "features", "feature", "weight"),
        *("parameters", "topology", "instanceid", "instancetype", "extra"),
    )
)
"""What a `NodeName=` line may hold (slurm.conf manual page, node configuration)."""

FEATURE_LABEL = "slurm.schedmd.com/feature."
"""Start of the label that stands for a feature of a node."""

STATE_TAINT = "slurm.schedmd.com/state"
"""Taint of a node that Slurm is told not to use."""

UNUSABLE_STATES = frozenset(("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"))
ABSENT_STATE = "FUTURE"
"""State of a node that is not there yet."""

_COUNT = re.compile(r"(\d{1,12})([kKmMgGtT]?)")
_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_FEATURE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,54}[A-Za-z0-9])?")
_CPUS_MAX = 100_000
_MEMORY_MIB_MAX = 2**31


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as slurm.conf states it."""

    name: str
    line: int
    machine: Machine
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """All nodes of a slurm.conf, by name, in the order written; absent ones are left out."""

    nodes: Mapping[str, SlurmNode]
    warnings: tuple[str, ...] = ()


def read_nodes(lines: Iterable[Entry], refusals: Refusals, *, used: int = 0) -> SlurmNodes:
    """The nodes of all `NodeName=` lines.

    Args:
        used: Names that other lines of the same input stand for.
    """
    defaults: dict[str, str] = {}
    nodes: dict[str, SlurmNode] = {}
    warnings: list[str] = []
    has_gpus = False
    for entry in lines:
        for key in entry.values.keys() - NODE_KEYS:
            refusals.add(entry.keys[key], "is no field of a node in slurm.conf", line=entry.line)
        if entry.name.upper() == "DEFAULT":
            defaults.update({k: v for k, v in entry.values.items() if k != "nodename"})
            continue
        values = {**defaults, **entry.values}
        machine = _machine(values, entry.line, refusals, warnings)
        has_gpus = has_gpus or bool(machine.gpus)
        state = values.get("state", "").strip("*").upper()
        if state == ABSENT_STATE:
            warnings.append(f"nodes '{entry.name}' (line {entry.line}) are {state}; left out")
            continue
        taints = (Taint(STATE_TAINT, state),) if state in UNUSABLE_STATES else ()
        labels = _labels(values.get("features") or values.get("feature", ""), warnings)
        for name in _names(entry, refusals, used + len(nodes)):
            first = nodes.setdefault(name, SlurmNode(name, entry.line, machine, labels, taints))
            if first.line != entry.line:
                message = f"node '{name}' is on lines {first.line} and {entry.line}; it has one"
                refusals.add("NodeName", message, line=entry.line)
    if not has_gpus:
        nodes = {name: _gpus_unknown(node) for name, node in nodes.items()}
    return SlurmNodes(nodes, tuple(first_of(warnings)))


def _gpus_unknown(node: SlurmNode) -> SlurmNode:
    """Where no line names a GPU, the file does not tell; one that names some tells of all."""
    machine = Machine(gpus=None, capacity=node.machine.capacity)
    return SlurmNode(node.name, node.line, machine, node.labels, node.taints)


def _names(entry: Entry, refusals: Refusals, used: int) -> list[str]:
    try:
        names = list(dict.fromkeys(expand(entry.name, limit=NAMES_MAX, used=used)))
    except InventoryError as error:
        refusals.add_all(error, "NodeName", line=entry.line)
        return []
    check_nodes(names, "NodeName", refusals, line=entry.line)
    return names


def _machine(
    values: Mapping[str, str], line: int, refusals: Refusals, warnings: list[str]
) -> Machine:
    cpus = _number(values, ("cpus", "procs"), line, refusals, _CPUS_MAX)
    if not cpus:
        shape = [
            _number(values, (key,), line, refusals, _CPUS_MAX)
            for key in ("sockets", "corespersocket", "threadspercore", "boards", "socketsperboard")
        ]
        sockets = shape[0] or (shape[3] or 1) * shape[4]
        cpus = min(_CPUS_MAX, sockets * (shape[1] or 1) * (shape[2] or 1))
    memory_mib = _number(values, ("realmemory",), line, refusals, _MEMORY_MIB_MAX)
    gpus, other = _gres(values.get("gres", ""), line, refusals)
    count = sum(gpus.values())
    problem = gpu_count_problem(count)
    if problem is not None:
        refusals.add("Gres", problem, line=line)
    models = sorted(model for model in gpus if model)
    if len(gpus) > 1:
        warnings.append(
            f"line {line}: nodes with several GPU models ({', '.join(models)}); a node type has "
            f"one, so they are named together"
        )
    model = "+".join(models) or (NAMELESS_GPU if count else "")
    return Machine(model, count, Resources(1000 * cpus, memory_mib, tuple(sorted(other.items()))))


def _number(
    values: Mapping[str, str], keys: tuple[str, ...], line: int, refusals: Refusals, most: int
) -> int:
    """The number in the first of these fields that is there; 0 without one."""
    for key in keys:
        text = values.get(key, "")
        if text.isascii() and text.isdigit() and len(text) <= 12 and int(text) <= most:
            return int(text)
        if text:
            refusals.add(key, f"'{text[:40]}' is no whole number up to {most}", line=line)
    return 0


def _gres(text: str, line: int, refusals: Refusals) -> tuple[dict[str, int], dict[str, int]]:
    """GPUs by model, "" for a nameless one; and other countable resources by name."""
    gpus: dict[str, int] = {}
    other: dict[str, int] = {}
    for item in filter(None, _split_gres(text)):
        kind, _, rest = item.partition(":")
        if kind.lower() in ("", "none", "(null)"):
            continue
        model, count = _model_and_count(rest)
        if count is None:
            message = f"'{item[:60]}' is not name[:type][:count], as in gpu:h100:8"
            refusals.add("Gres", message, line=line)
        elif kind.lower() == "gpu":
            gpus[model] = gpus.get(model, 0) + count
        elif count and kind.lower() not in ("mps", "shard"):
            other[kind] = other.get(kind, 0) + count
    return {model: count for model, count in gpus.items() if count}, other


def _split_gres(text: str) -> list[str]:
    """Parts between commas, without what follows in brackets: `gpu:a:4(S:0-1),nvme:1`."""
    return [part.strip() for part in re.sub(r"\([^()]*\)", "", text).split(",")]


def _model_and_count(text: str) -> tuple[str, int | None]:
    """The type and count of `type:count`, `count`, `type` or nothing, which means one."""
    parts = [part for part in text.split(":") if part and part != "no_consume"]
    count = 1
    if parts and (found := _COUNT.fullmatch(parts[-1])):
        count = int(found[1]) * _FACTORS[found[2].lower()]
        parts.pop()
    if len(parts) > 1 or any(label_value_problem(part) for part in parts):
        return "", None
    return (parts[0] if parts else ""), count


def _labels(text: str, warnings: list[str]) -> dict[str, str]:
    labels = {}
    for feature in filter(None, (part.strip() for part in text.split(","))):
        if _FEATURE.fullmatch(feature):
            labels[FEATURE_LABEL + feature] = "true"
        else:
            warnings.append(f"feature '{feature[:60]}' is no label's name; left out")
    return dict(sorted(labels.items()))
