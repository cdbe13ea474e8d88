"""Texts that describe Kubernetes nodes -> one view of each node.

Nodes come as objects, in lists, or as several documents. Simulators and installers describe many at
once: kind clusters, knavigator workflows and node groups, and topograph's NodeFeature objects.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.importers.fields import Fields, as_text
from scheduler.importers.hostlist import NAMES_MAX
from scheduler.importers.plain_values import Document, Value, shown
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.yaml_text import read_all

FEATURE_LABELS = {
    "accelerator-domain": "accelerator.topograph.run/domain",
    "accelerator-sub-domain": "accelerator.topograph.run/sub-domain",
    **{f"fabric-tier-{n}": f"fabric.topograph.run/tier-{n}" for n in range(8)},
}
"""Elements of topograph's NodeFeature -> the labels that topograph writes for the same."""

GROUP_LABELS = {
    "dgxa100.40g": {"nvidia.com/gpu.product": "A100-SXM4-40GB"},
    "dgxa100.80g": {"nvidia.com/gpu.product": "A100-SXM4-80GB"},
    "dgxh100.80g": {"nvidia.com/gpu.product": "H100-SXM5-80GB"},
}
"""Node types of knavigator -> labels that say what they are."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """What a text says of one node, in the words of Kubernetes.

    Attributes:
        path: Where, as in `items[3]`.
        line: Where, counted from 1; 0 where it is not known.
        capacity, allocatable: None if the text does not tell.
        ready: Status of the condition `Ready`: True, False, Unknown; "" if there is none.
        taints: As written.
    """

    name: str
    path: str
    line: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] | None = None
    allocatable: Mapping[str, str] | None = None
    unschedulable: bool = False
    ready: str = ""
    taints: tuple[Mapping[str, str], ...] = ()


def read_views(text: str | bytes, refusals: Refusals) -> list[NodeView]:
    """The nodes of a text.

    Raises:
        InventoryError: If it is neither YAML nor JSON, or describes no node.
    """
    views: list[NodeView] = []
    kinds: Counter[str] = Counter()
    documents = read_all(text)
    for number, document in enumerate(documents):
        path = f"[{number}]" if len(documents) > 1 else ""
        for fields in _objects(document, path, refusals):
            kind = _kind(fields)
            kinds[kind or "without a kind"] += 1
            reader = _READERS.get(kind)
            if reader is not None:
                views += reader(fields)
            if len(views) > NAMES_MAX:
                raise refuse(fields.path, f"more than {NAMES_MAX} nodes")
    refusals.raise_if_any()
    if not views:
        found = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())[:8]) or "nothing"
        raise refuse("kind", f"no object describes a node; found {found[:200]}")
    return views


def _objects(document: Document, path: str, refusals: Refusals) -> Iterator[Fields]:
    """The objects of a document; lists are opened up, one inside another too."""
    stack: list[tuple[Value, str]] = [(document.value, path)]
    while stack:
        value, at = stack.pop()
        if isinstance(value, list):
            stack += [(item, f"{at}[{i}]") for i, item in reversed(list(enumerate(value)))]
        elif isinstance(value, dict):
            kind = as_text(value.get("kind")) or ""
            if kind.endswith("List") and isinstance(value.get("items"), list):
                stack.append((value["items"], f"{at}.items" if at else "items"))
            else:
                yield Fields(value, at, document, refusals)
        elif value is not None:
            refusals.add(at, f"must be an object; found {shown(value)}", line=0 if at else 1)


def _kind(fields: Fields) -> str:
    kind = as_text(fields.values.get("kind"))
    if kind:
        return kind
    if isinstance(fields.values.get("tasks"), list):
        return _WORKFLOW
    if isinstance(fields.values.get("nodes"), list):
        return _GROUPS
    return ""


def _texts(fields: Fields, key: str) -> dict[str, str]:
    """A mapping of texts, such as labels or quantities; what is none of these is a problem."""
    return _as_texts(fields.mapping(key))


def _as_texts(fields: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in fields.values.items():
        if isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        elif value is not None:
            fields.refuse(name[:60], f"must be text; found {shown(value)}")
    return found


def _line(fields: Fields) -> int:
    return fields.document.line_of(fields.values) or 0


def _node(fields: Fields) -> Iterator[NodeView]:
    metadata, spec, status = (fields.mapping(key) for key in ("metadata", "spec", "status"))
    name = metadata.name("name")
    if name is None:
        if metadata.values.get("name") is None:
            fields.refuse("metadata.name", "missing; a node has a name")
        return
    unschedulable = spec.values.get("unschedulable") or False
    if not isinstance(unschedulable, bool):
        spec.wrong("unschedulable", "true or false")
    yield NodeView(
        name=name,
        path=fields.path,
        line=_line(fields),
        labels=_texts(metadata, "labels"),
        annotations=_texts(metadata, "annotations"),
        capacity=_texts(status, "capacity") if "capacity" in status else None,
        allocatable=_texts(status, "allocatable") if "allocatable" in status else None,
        unschedulable=unschedulable is True,
        ready=_ready(status),
        taints=tuple(_taint(taint) for taint in spec.mappings("taints")),
    )


def _ready(status: Fields) -> str:
    for condition in status.mappings("conditions"):
        if condition.values.get("type") == "Ready":
            # Without quotes it was read as a truth value.
            value = condition.values.get("status")
            return str(value).capitalize() if isinstance(value, str | bool) else ""
    return ""


def _taint(fields: Fields) -> dict[str, str]:
    return {key: fields.text(key) for key in ("key", "value", "effect")}


def _kind_cluster(fields: Fields) -> Iterator[NodeView]:
    """Workers of a kind cluster, with the names that kind gives them."""
    cluster = fields.name("name") or "kind"
    count = 0
    for entry in fields.mappings("nodes"):
        if entry.text("role") == "worker":
            count += 1
            name = f"{cluster}-worker{count if count > 1 else ''}"
            yield NodeView(name, entry.path, _line(entry), _texts(entry, "labels"))


def _workflow(fields: Fields) -> Iterator[NodeView]:
    """Nodes of a knavigator workflow, cordoned as its later tasks say."""
    views: list[NodeView] = []
    cordons: list[dict[str, str]] = []
    for task in fields.mappings("tasks"):
        params = task.mapping("params")
        if task.text("type") == "Configure":
            views += _groups(params, len(views))
        elif task.text("type") == "UpdateNodes":
            spec = params.mapping("state").mapping("spec")
            if spec.values.get("unschedulable") is True:
                cordons += [_as_texts(labels) for labels in params.mappings("selectors")]
    for view in views:
        cordoned = any(c.items() <= view.labels.items() for c in cordons if c)
        yield _cordoned(view) if cordoned else view


def _cordoned(view: NodeView) -> NodeView:
    return NodeView(view.name, view.path, view.line, view.labels, unschedulable=True)


def _groups_of(fields: Fields) -> Iterator[NodeView]:
    yield from _groups(fields, 0)


def _groups(fields: Fields, used: int) -> Iterator[NodeView]:
    """Nodes of knavigator's groups: so many of one type with these labels."""
    for entry in fields.mappings("nodes"):
        kind = entry.text("type")
        count = entry.integer("count", 1, 0, NAMES_MAX)
        if used + count > NAMES_MAX:
            entry.refuse("count", f"more than {NAMES_MAX} nodes")
            return
        labels = {**GROUP_LABELS.get(kind, {}), **_texts(entry, "labels")}
        named = entry.name("name")
        if named is None and not kind:
            entry.refuse("type", "missing; a group of nodes has a type")
            return
        resources = _texts(entry, "resources") if "resources" in entry else None
        own = labels.get("node-id", "")
        for _ in range(count):
            name = own if own and count == 1 else named if named and count == 1 else ""
            name = name or f"{named or kind}-{used}"
            used += 1
            yield NodeView(name, entry.path, _line(entry), labels, capacity=resources)


def _feature(fields: Fields) -> Iterator[NodeView]:
    """A node that topograph describes for Node Feature Discovery."""
    attributes = fields.mapping("spec").mapping("features").mapping("attributes")
    elements = _texts(attributes.mapping("topograph.network"), "elements")
    system = _texts(attributes.mapping("system.name"), "elements")
    labels = _texts(fields.mapping("metadata"), "labels")
    name = system.get("nodename") or labels.get("nfd.node.kubernetes.io/node-name")
    if not name:
        fields.refuse("metadata.labels", "neither a label nor the features name the node")
        return
    told = {FEATURE_LABELS[key]: value for key, value in elements.items() if key in FEATURE_LABELS}
    yield NodeView(name, fields.path, _line(fields), told)


_WORKFLOW, _GROUPS = "workflow", "node groups"

_READERS: Mapping[str, Callable[[Fields], Iterator[NodeView]]] = {
    "Node": _node,
    "Cluster": _kind_cluster,
    "NodeFeature": _feature,
    _WORKFLOW: _workflow,
    _GROUPS: _groups_of,
}


def of_one_name(views: Sequence[NodeView], refusals: Refusals) -> None:
    """Note each node that is described twice."""
    first: dict[str, NodeView] = {}
    for view in views:
        before = first.setdefault(view.name, view)
        if before is not view:
            where = f"first at {before.path or 'the start'}" + (
                f", line {before.line}" if before.line else ""
            )
            refusals.add(view.path, f"node '{view.name}' comes twice; {where}", line=view.line)
