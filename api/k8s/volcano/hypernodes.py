"""topology.volcano.sh/v1alpha1 HyperNode: a domain of the topology, at the tier of its level.

They come with the inventory. One that is written here is the same as an import that gives its nodes
this place: nodes and levels have to be there, and levels have to stay nested.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from api.k8s.base import Base, own
from api.k8s.errors import already_exists
from api.k8s.kinds import NAME, Call, Column, Kind, Obj, Subresource, Wanted, name_of
from api.k8s.meta import Moved, kept_meta, metadata_of
from api.k8s.schema import object_schema
from api.k8s.table import age
from api.k8s.volcano.domains import Domains, domains_of
from api.k8s.volcano.kinds_other import HYPERNODE_SPEC, HYPERNODE_STATUS
from api.k8s.volcano.other_rules import hypernode_problems
from api.k8s.volcano.pod_rules import number_at, text_at, tree, trees
from api.k8s.volcano.refuse import refused
from api.k8s.volcano.shape import Tree, filled, shape_problems
from api.k8s.volcano.tiers import Tiers
from api.store.inventory import import_inventory
from api.store.look import Look, look_at
from api.store.objects import ObjectRow, drop_object, put_object
from api.store.topology import map_revision, read_inventory
from api.store.views import EventView
from scheduler.errors import InventoryError, Problem
from scheduler.model.node import Inventory, NodeRecord

KIND = Kind(
    "topology.volcano.sh",
    "v1alpha1",
    "hypernodes",
    "hypernode",
    "HyperNode",
    object_schema(
        "HyperNode is a domain of the network: nodes, or smaller domains, near each other.",
        {"spec": HYPERNODE_SPEC, "status": HYPERNODE_STATUS},
    ),
    namespaced=False,
    short_names=("hn",),
    subresources=(Subresource("status", ("get", "patch", "update")),),
    columns=(
        NAME,
        Column("Tier", description="1 is the innermost level above a node."),
        Column("TierName", description="The level."),
        Column("NodeCount", "integer", description="Members: nodes, or domains of the tier below."),
        Column("Age", "date"),
    ),
)
RESOURCE = KIND.resource
REPEATS_MAX = 4
_REPEAT, _REPEATED_GROUP = re.compile(r"[*+{]"), re.compile(r"\)[*+{?]")
_SHAPE = {"type": "object", "properties": {"spec": HYPERNODE_SPEC}}


class HyperNodes(Base):
    """Domains of every level but that of the nodes themselves."""

    kind = KIND

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        domains = domains_of(look.topology())
        rows = {row.name: row for row in look.objects(RESOURCE)}
        revision = map_revision(look.connection)
        for name in sorted(domains.by_name):
            if wanted.name in (None, name):
                yield _shown(domains, name, rows.get(name), revision)

    def create(self, call: Call, obj: Obj) -> Obj:
        with look_at(call.parts.database) as look:
            if name_of(obj) in domains_of(look.topology()).by_name:
                raise already_exists(RESOURCE, name_of(obj))
        return _place(call, obj, None)

    def update(self, call: Call, old: Obj, new: Obj) -> Obj:
        if call.subresource:
            return old  # how many nodes there are follows from the inventory
        if number_at(new["spec"], "tier", -1) != old["spec"]["tier"]:
            raise refused(
                KIND, new, [Problem("spec.tier", "cannot be changed: delete it, make it anew")]
            )
        with look_at(call.parts.database) as look:
            if next(iter(self.read(look, Wanted(name=name_of(old)))), None) != old:
                raise Moved(name_of(old))
        return _place(call, new, old)

    def delete(self, call: Call, old: Obj, options: Obj) -> Obj | None:
        with look_at(call.parts.database) as look:
            inventory = read_inventory(look.connection).inventory
            domains = domains_of(look.topology())
            rows = look.objects(RESOURCE, name=name_of(old))
        found = domains.by_name[name_of(old)]
        _write(call, old, _placed(inventory, found.level, found.domain, set()))
        if not call.dry_run and rows:
            call.parts.database.grouped(lambda tx: drop_object(tx, rows[0]), call.now_s)
        return None

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        spec = obj["spec"]
        created = obj["metadata"].get("creationTimestamp")
        count = obj["status"].get("nodeCount", 0)
        tier, level = str(spec.get("tier", "")), spec.get("tierName", "")
        return [name_of(obj), tier, level, count, age(created, now_s)]

    def touched(self, look: Look, event: EventView) -> Collection[str] | None:
        if event.subject_kind in ("inventory", "set", "domain"):
            return None
        return own(KIND, event)


def _shown(domains: Domains, name: str, row: ObjectRow | None, revision: int) -> Obj:
    found = domains.by_name[name]
    members: list[Tree] = [
        {"type": kind, "selector": {"exactMatch": {"name": member}}}
        for kind, member in found.members
    ]
    metadata = metadata_of(
        KIND,
        name=name,
        uid=f"hypernode:{name}",
        revision=revision,
        created_s=None if row is None else row.created_at,
        row=row,
    )
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata,
        "spec": {"tier": found.tier, "tierName": found.level, "members": members},
        "status": {"nodeCount": len(found.members)},
    }


@dataclass(frozen=True, slots=True)
class _Wish:
    """A domain that is to be: its level, and the nodes in it."""

    level: str
    nodes: frozenset[str]


def _place(call: Call, obj: Obj, old: Obj | None) -> Obj:
    """Give the members this place; returns the object as it is then."""
    problems = list(shape_problems(_SHAPE, obj, ""))
    obj = obj | {"spec": filled(HYPERNODE_SPEC, obj.get("spec") or {})}
    problems = problems or list(hypernode_problems(obj))
    if problems:
        raise refused(KIND, obj, problems)
    with look_at(call.parts.database) as look:
        inventory = read_inventory(look.connection).inventory
        domains = domains_of(look.topology())
    wish = _wish(obj, inventory, domains)
    known = domains.by_name.get(name_of(obj))
    domain = known.domain if known is not None else name_of(obj)
    _write(call, obj, _placed(inventory, wish.level, domain, wish.nodes))
    if call.dry_run:
        return obj
    meta = obj["metadata"]
    row = ObjectRow(
        uid=f"hypernode:{name_of(obj)}",
        resource=RESOURCE,
        namespace="",
        name=name_of(obj),
        created_at=call.now_s,
        labels=meta.get("labels", {}),
        annotations=meta.get("annotations", {}),
        meta=kept_meta(meta),
        managed=meta.get("managedFields", []),
        generation=0,
    )
    call.parts.database.grouped(lambda tx: put_object(tx, row), call.now_s)
    with look_at(call.parts.database) as look:
        return next(iter(HyperNodes().read(look, Wanted(name=name_of(obj)))), obj)


def _wish(obj: Obj, inventory: Inventory, domains: Domains) -> _Wish:
    spec, tiers = obj["spec"], Tiers(inventory.levels)
    tier = number_at(spec, "tier")
    level = tiers.level(tier)
    if level is None or tier < 1:
        known = ", ".join(f"{n} = {tiers.level(n)}" for n in range(1, tiers.count + 1))
        raise refused(KIND, obj, [Problem("spec.tier", f"found {tier}; the tiers are {known}")])
    if text_at(spec, "tierName") not in ("", level):
        raise refused(
            KIND, obj, [Problem("spec.tierName", f"tier {tier} is called '{level}' here")]
        )
    nodes: set[str] = set()
    for index, member in enumerate(trees(spec, "members")):
        found = _members(obj, f"spec.members[{index}]", member, tier, inventory, domains)
        if not found:
            where = f"spec.members[{index}].selector"
            raise refused(KIND, obj, [Problem(where, "selects nothing that the inventory has")])
        nodes |= found
    domain = domains.by_name[name_of(obj)].domain if name_of(obj) in domains.by_name else ""
    for node in inventory.nodes:
        place = node.places.get(level)
        if node.name in nodes and place not in (None, domain or name_of(obj)):
            other = domains.of_place.get((level, str(place)), place)
            message = f"node '{node.name}' is in hypernode '{other}' of the same tier"
            raise refused(KIND, obj, [Problem("spec.members", message)])
    return _Wish(level, frozenset(nodes))


def _members(
    obj: Obj, path: str, member: Tree, tier: int, inventory: Inventory, domains: Domains
) -> set[str]:
    """Nodes of one member."""
    selector = tree(member, "selector")
    is_node = text_at(member, "type") == "Node"
    below = {n: f.nodes for n, f in domains.by_name.items() if f.tier < tier}
    names: Mapping[str, Collection[str]] = (
        {node.name: (node.name,) for node in inventory.nodes} if is_node else below
    )
    if "exactMatch" in selector:
        return set(names.get(text_at(tree(selector, "exactMatch"), "name"), ()))
    if "regexMatch" in selector:
        wanted = text_at(tree(selector, "regexMatch"), "pattern")
        if _REPEATED_GROUP.search(wanted) or len(_REPEAT.findall(wanted)) > REPEATS_MAX:
            message = f"may repeat {REPEATS_MAX} times and no groups, so that it is quickly matched"
            raise refused(KIND, obj, [Problem(f"{path}.selector.regexMatch.pattern", message)])
        pattern = re.compile(wanted)
        return {node for name, nodes in names.items() if pattern.search(name) for node in nodes}
    return {node.name for node in inventory.nodes if _matches(tree(selector, "labelMatch"), node)}


def _matches(selector: Tree, node: NodeRecord) -> bool:
    """Whether a label selector takes a node."""
    wanted = tree(selector, "matchLabels")
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(item, node.labels) for item in trees(selector, "matchExpressions"))


def _holds(item: Tree, labels: Mapping[str, str]) -> bool:
    found, values = labels.get(text_at(item, "key")), item.get("values")
    among = found in values if isinstance(values, list) else False
    match text_at(item, "operator"):
        case "In":
            return found is not None and among
        case "NotIn":
            return not among
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case _:
            return False


def _placed(
    inventory: Inventory, level: str, domain: str, nodes: Collection[str]
) -> tuple[Inventory, list[NodeRecord]]:
    """Records that change when these nodes, and no others, are in a domain."""
    changed = []
    for node in inventory.nodes:
        here = node.places.get(level) == domain
        if here != (node.name in nodes):
            places = {**node.places, level: None if here else domain}
            changed.append(replace(node, places=places))
    return inventory, changed


def _write(call: Call, obj: Obj, placed: tuple[Inventory, list[NodeRecord]]) -> None:
    """Import the changed records, if levels stay nested with them."""
    inventory, changed = placed
    database, now_s = call.parts.database, call.now_s
    only = replace(inventory, nodes=tuple(changed), warnings=())
    none = replace(inventory, nodes=(), warnings=())
    try:
        before = import_inventory(database, none, prune=False, dry_run=True, now_s=now_s)
        after = import_inventory(database, only, prune=False, dry_run=True, now_s=now_s)
    except InventoryError as error:
        raise refused(
            KIND, obj, [Problem("spec.members", p.message) for p in error.problems]
        ) from None
    new = [text for text in after.warnings if text not in before.warnings]
    if new:
        raise refused(KIND, obj, [Problem("spec.members", text) for text in new[:10]])
    if not call.dry_run:
        import_inventory(database, only, prune=False, dry_run=False, now_s=now_s)
