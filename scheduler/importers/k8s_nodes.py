"""Kubernetes nodes (JSON or YAML; a List, several documents, one Node) -> Inventory.

A domain's identity is its path: rack `r1` of one block is not `r1` of another. Which label names
the domains of which level is data.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from scheduler.importers.domain_levels import Columns, Described, inventory_of_domains, scoped
from scheduler.importers.fields import label_key_problem, label_value_problem, name_problem
from scheduler.importers.k8s_documents import NodeView, of_one_name, read_views
from scheduler.importers.k8s_labels import (
    COUNT_LABEL,
    DOMAIN_LABELS,
    GPU_RESOURCE_PREFIXES,
    GPU_RESOURCES,
    INSTANCE_LABELS,
    LABEL_LEVELS,
    NOT_COUNTED,
    NOT_COUNTED_PREFIXES,
    NOT_READY_TAINTS,
    PRODUCT_LABELS,
    REPLICAS_LABEL,
    SET_LABELS,
    SLINKY_ANNOTATION,
    UNSCHEDULABLE_TAINT,
    LabelLevels,
)
from scheduler.importers.machines import NAMELESS_GPU, Machine, gpu_count_problem
from scheduler.importers.options import DEFAULTS, RESERVED_LEVELS, Options
from scheduler.importers.product_data import CLOUD_MACHINES
from scheduler.importers.refusals import Refusals, first_of
from scheduler.model.node import Inventory, Taint, TaintEffect
from scheduler.model.resources import Resources
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

_QUANTITY = re.compile(
    r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(?:([eE][-+]?[0-9]{1,3})|([numkMGTPEKi]{0,2}))"
)
_SUFFIX = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    **{s: 1000.0**n for n, s in enumerate(("M", "G", "T", "P", "E"), 2)},
    **{s: 1024.0**n for n, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_AMOUNT_MAX = 2.0**53

LABELS_MAX = 2_000
"""Labels of one node; feature discovery writes about a hundred."""

TAINTS_MAX = 200
"""Taints of one node."""


def parse(
    text: str | bytes,
    options: Options = DEFAULTS,
    *,
    label_levels: LabelLevels = LABEL_LEVELS,
    domain_labels: Sequence[str] = DOMAIN_LABELS,
    set_labels: Mapping[str, str] = SET_LABELS,
) -> Inventory:
    """The inventory that Kubernetes nodes describe.

    Args:
        label_levels: Levels and the labels that name their domains, outermost first; a level that
            no node has a label of is left out.
        domain_labels: Labels that name the node's scale-up domain.
        set_labels: Kind of named sets -> label.

    Raises:
        InventoryError: If no object is a node, a node comes twice, or a field is wrong.
    """
    options.check()
    refusals = Refusals()
    _check_levels(label_levels, refusals)
    views = read_views(text, refusals)
    of_one_name(views, refusals)
    warnings: list[str] = []
    nodes = [_described(view, refusals, warnings) for view in views]
    refusals.raise_if_any()
    labels = [_place_labels(view) for view in views]
    columns: Columns = {
        level: column
        for level, keys in label_levels.items()
        if any(column := [_first(of_node, keys) or None for of_node in labels])
    }
    placeless = [v.name for i, v in enumerate(views) if not any(c[i] for c in columns.values())]
    if placeless and columns:
        ordered = sorted(placeless, key=natural_key)
        warnings.append(f"{listed('node', ordered)} without a label that names a place")
    paths, repeated = scoped(columns)
    domain_of = {v.name: d for v in views if (d := _first(v.labels, domain_labels))}
    return inventory_of_domains(
        nodes,
        paths,
        domain_of,
        options,
        warnings=(*first_of(warnings), *repeated),
        sets=_sets(views, set_labels),
    )


def _check_levels(label_levels: LabelLevels, refusals: Refusals) -> None:
    for level in label_levels:
        problem = name_problem(level)
        if level in RESERVED_LEVELS:
            problem = f"'{level}' is not a name for a level"
        if problem is not None:
            refusals.add("label_levels", problem)


def _first(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    """The value of the first of these labels that is there and not empty; "" without one."""
    return next((labels[key] for key in keys if labels.get(key)), "")


def _place_labels(view: NodeView) -> Mapping[str, str]:
    """Labels, and what annotations say in the place of one."""
    units = _slinky_units(view)
    return {**view.labels, SLINKY_ANNOTATION: units[0][1]} if units else view.labels


def _slinky_units(view: NodeView) -> list[tuple[str, str]]:
    """Topology and unit of each part of Slinky's annotation."""
    text = view.annotations.get(SLINKY_ANNOTATION, "")
    pairs = (part.strip().partition(":") for part in text.split(","))
    # The unit of a tree may be the whole way to it: root:spine:leaf.
    found = [(topology, unit.rpartition(":")[2]) for topology, _, unit in pairs]
    return [(t, u) for t, u in found if name_problem(t) is None and label_value_ok(u) and u]


def _sets(views: Sequence[NodeView], set_labels: Mapping[str, str]) -> dict[str, dict[str, str]]:
    sets: dict[str, dict[str, str]] = {}
    for view in views:
        named = [(kind, view.labels.get(label, "")) for kind, label in set_labels.items()]
        for kind, name in (*named, *_slinky_units(view)[1:]):
            if name:
                sets.setdefault(kind, {})[view.name] = name
    return sets


def _described(view: NodeView, refusals: Refusals, warnings: list[str]) -> Described:
    for what, found, most in (
        ("metadata.labels", len(view.labels), LABELS_MAX),
        ("spec.taints", len(view.taints), TAINTS_MAX),
    ):
        if found > most:
            refusals.add(_at(view, what), f"{found} entries; at most {most} are allowed")
    for key, value in view.labels.items():
        problem = label_problem(key, value)
        if problem is not None:
            refusals.add(_at(view, f"metadata.labels.{key[:60]}"), problem, line=view.line)
    problem = name_problem(view.name)
    if problem is not None:
        refusals.add(_at(view, "metadata.name"), problem, line=view.line)
    machine = _machine(view, refusals, warnings)
    labels = dict(sorted(view.labels.items()))
    return Described(view.name, machine, labels, _taints(view, refusals))


def _at(view: NodeView, field: str) -> str:
    return f"{view.path}.{field}" if view.path else field


@lru_cache(maxsize=16_384)
def label_problem(key: str, value: str) -> str | None:
    """Why this cannot be a label; nodes of one cluster have most in common."""
    return label_key_problem(key) or label_value_problem(value)


def label_value_ok(value: str) -> bool:
    return label_value_problem(value) is None


def _taints(view: NodeView, refusals: Refusals) -> tuple[Taint, ...]:
    taints: dict[tuple[str, TaintEffect], Taint] = {}
    for index, written in enumerate(view.taints):
        problem = label_problem(written["key"], written["value"])
        effect = written["effect"] or TaintEffect.NO_SCHEDULE
        if effect not in set(TaintEffect):
            problem = f"effect '{effect[:40]}' is none of {', '.join(TaintEffect)}"
        if problem is not None:
            refusals.add(_at(view, f"spec.taints[{index}]"), problem, line=view.line)
            continue
        taint = Taint(written["key"], written["value"], TaintEffect(effect))
        taints[taint.key, taint.effect] = taint
    states = [UNSCHEDULABLE_TAINT] if view.unschedulable else []
    if view.ready in NOT_READY_TAINTS:
        states.append(NOT_READY_TAINTS[view.ready])
    for key in states:
        taints.setdefault((key, TaintEffect.NO_SCHEDULE), Taint(key))
    return tuple(sorted(taints.values()))


def _machine(view: NodeView, refusals: Refusals, warnings: list[str]) -> Machine:
    instance = _first(view.labels, INSTANCE_LABELS)
    product = _first(view.labels, PRODUCT_LABELS)
    machine = Machine(product, instance=instance if instance.lower() in CLOUD_MACHINES else "")
    capacity = _amounts(view, "capacity", refusals)
    allocatable = _amounts(view, "allocatable", refusals)
    if not capacity and not allocatable:
        return _counted(machine, view)
    whole = capacity or allocatable
    usable = allocatable or capacity
    found = {name: round(amount) for name, amount in whole.items() if _is_gpu(name) and amount}
    gpus = sum(found.values())
    if len(found) > 1:
        warnings.append(f"node '{view.name}' has GPUs of several kinds: {', '.join(found)}")
    problem = gpu_count_problem(gpus)
    if problem is not None:
        refusals.add(_at(view, "status.capacity"), problem, line=view.line)
    gpus = _whole_gpus(view, gpus, warnings)
    idle = gpus - round(sum(amount for name, amount in usable.items() if _is_gpu(name)))
    if allocatable and idle > 0 and gpus:
        warnings.append(f"node '{view.name}': {idle} of {gpus} GPUs are not allocatable")
    counted = view.labels.get(COUNT_LABEL, "0")
    if not gpus and counted not in ("", "0"):
        warnings.append(f"node '{view.name}' has the label of {counted} GPUs and offers none")
    if not product and gpus:
        product = next((name.rpartition("/")[2] for name in found if _names_product(name)), "")
    return Machine(
        gpu=(product or ("" if machine.instance else NAMELESS_GPU)) if gpus else "",
        gpus=gpus,
        capacity=_resources(usable),
        instance=machine.instance if gpus else "",
    )


def _counted(machine: Machine, view: NodeView) -> Machine:
    """A machine that tells no capacity, but may have a label with the number of its GPUs."""
    count = view.labels.get(COUNT_LABEL, "")
    if not (count.isascii() and count.isdigit()) or gpu_count_problem(int(count[:9])):
        return machine
    gpus = int(count)
    return replace(machine, gpus=gpus, gpu=(machine.gpu or NAMELESS_GPU) if gpus else "")


def _whole_gpus(view: NodeView, gpus: int, warnings: list[str]) -> int:
    """GPUs, where a node offers each in several shares."""
    text = view.labels.get(REPLICAS_LABEL, "1")
    replicas = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
    if replicas < 2 or gpus % replicas:
        return gpus
    warnings.append(
        f"node '{view.name}' offers each GPU in {replicas} shares; taken as {gpus // replicas} GPUs"
    )
    return gpus // replicas


def _is_gpu(name: str) -> bool:
    return name in GPU_RESOURCES or _names_product(name)


def _names_product(name: str) -> bool:
    return name.startswith(GPU_RESOURCE_PREFIXES)


def _amounts(view: NodeView, field: str, refusals: Refusals) -> dict[str, float]:
    texts = view.capacity if field == "capacity" else view.allocatable
    amounts: dict[str, float] = {}
    for name, text in (texts or {}).items():
        amount = quantity(text)
        if amount is None:
            message = f"'{text[:40]}' is no quantity of at least 0, as in 8, 500m or 2Ti"
            refusals.add(_at(view, f"status.{field}.{name[:60]}"), message, line=view.line)
        else:
            amounts[name] = amount
    return amounts


@lru_cache(maxsize=16_384)
def quantity(text: str) -> float | None:
    """A quantity of Kubernetes in whole units; None if it is none, is negative or above 2^53."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (found[3] or "") not in _SUFFIX:
        return None
    amount = float(found[1]) * (float(f"1{found[2]}") if found[2] else _SUFFIX[found[3] or ""])
    return amount if amount <= _AMOUNT_MAX else None


def _resources(amounts: Mapping[str, float]) -> Resources:
    other = {
        name: int(amount)
        for name, amount in amounts.items()
        if amount >= 1
        and name not in NOT_COUNTED
        and not name.startswith(NOT_COUNTED_PREFIXES)
        and not _is_gpu(name)
        and label_key_problem(name) is None
    }
    return Resources(
        cpu_milli=int(amounts.get("cpu", 0.0) * 1000),
        memory_mib=int(amounts.get("memory", 0.0) / 2**20),
        other=tuple(sorted(other.items())),
    )
