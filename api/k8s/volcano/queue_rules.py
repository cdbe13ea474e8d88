"""What makes a Volcano queue one that its webhook takes: new ones, changes, deletion."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from api.k8s.volcano.patch import Operation, pointer
from api.k8s.volcano.pod_rules import is_counted, number_at, text_at, tree
from api.k8s.volcano.quantity import decimal, parse_quantity
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.site import ROOT, QueueSeen, Site, amounts_of
from scheduler.errors import Problem

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
DEFAULT = "default"
DEPTH_MAX = 5

_SHARES = ("capability", "deserved", "guarantee")
_OWN = ("guarantee", "deserved")
"""Amounts that siblings divide among themselves."""

Amounts = Mapping[str, Fraction]


def queue_defaults(queue: Tree) -> list[Operation]:
    """What is to be changed in a queue whose fields are of the right kinds."""
    spec, notes = tree(queue, "spec"), tree(tree(queue, "metadata"), "annotations")
    path, weights = text_at(notes, HIERARCHY), text_at(notes, WEIGHTS)
    made: list[Operation] = []
    if path and weights and path.split("/")[0] != ROOT:
        made.append(_note(HIERARCHY, f"{ROOT}/{path}"))
        made.append(_note(WEIGHTS, f"1/{weights}"))
    if not isinstance(queue.get("spec"), dict):
        made.append({"op": "add", "path": "/spec", "value": {}})
    if spec.get("reclaimable") is None:
        made.append({"op": "add", "path": "/spec/reclaimable", "value": True})
    if not number_at(spec, "weight"):
        made.append({"op": "add", "path": "/spec/weight", "value": 1})
    return made


def _note(key: str, value: str) -> Operation:
    return {"op": "add", "path": pointer("metadata", "annotations", key), "value": value}


def queue_problems(queue: Tree, old: Tree | None, site: Site) -> Iterator[Problem]:
    """What is wrong with a new queue, or with a change of one (`old`)."""
    name, spec = text_at(tree(queue, "metadata"), "name"), tree(queue, "spec")
    yield from _amount_problems(spec)
    state = text_at(tree(queue, "status"), "state")
    if state not in ("", "Open", "Closed"):
        yield Problem("status.state", f"found '{state[:40]}'; allowed are Open, Closed")
    yield from _hierarchy_problems(name, queue, site)
    old_spec = None if old is None else tree(old, "spec")
    if old_spec is not None and name == ROOT:
        for share in _SHARES:
            if amounts_of(old_spec, share) != amounts_of(spec, share):
                yield Problem(f"spec.{share}", "of queue 'root' cannot be changed")
    parent = text_at(spec, "parent")
    moved = old_spec is None or text_at(old_spec, "parent") != parent
    if parent not in ("", ROOT) and moved:
        problems = list(_parent_problems(name, parent, site))
        yield from problems
        if problems:
            return
    if name != ROOT and (moved or any(_changed(old_spec, spec, share) for share in _SHARES)):
        yield from _tree_problems(QueueSeen(name, parent, spec=spec), site)


def delete_problems(name: str, site: Site) -> Iterator[Problem]:
    """Why a queue cannot be deleted."""
    if name in (DEFAULT, ROOT):
        yield Problem("metadata.name", f"queue '{name}' is always there")
    elif name not in site.queues:
        yield Problem("metadata.name", f"there is no queue '{name[:60]}'")
    elif site.children(name):
        below = ", ".join(q.name for q in site.children(name)[:5])
        yield Problem("metadata.name", f"queue '{name}' has queues below it: {below}")


def _changed(old: Tree | None, new: Tree, share: str) -> bool:
    return old is None or amounts_of(old, share) != amounts_of(new, share)


def _amount_problems(spec: Tree) -> Iterator[Problem]:
    for share in _SHARES:
        path = "spec.guarantee.resource" if share == "guarantee" else f"spec.{share}"
        for resource, number in amounts_of(spec, share).items():
            if number < 0:
                yield Problem(f"{path}.{resource}", "is below 0; it must be at least 0")
            elif is_counted(resource) and number.denominator != 1:
                yield Problem(f"{path}.{resource}", f"found {decimal(number)}; write a whole one")
    capability, deserved = amounts_of(spec, "capability"), amounts_of(spec, "deserved")
    for resource, number in amounts_of(spec, "guarantee").items():
        if deserved.get(resource, Fraction(0)) < number:
            yield Problem(f"spec.deserved.{resource}", f"is below the guarantee, {decimal(number)}")
    for resource, number in deserved.items():
        if resource in capability and number > capability[resource]:
            most = decimal(capability[resource])
            yield Problem(f"spec.deserved.{resource}", f"is above the capability, {most}")


def _hierarchy_problems(name: str, queue: Tree, site: Site) -> Iterator[Problem]:
    notes = tree(tree(queue, "metadata"), "annotations")
    path, weights = text_at(notes, HIERARCHY), text_at(notes, WEIGHTS)
    if not path and not weights:
        return
    where = f"metadata.annotations.[{WEIGHTS}]"
    if len(path.split("/")) != len(weights.split("/")):
        yield Problem(where, f"'{weights[:60]}' has not as many parts as '{path[:60]}'")
    for part in weights.split("/"):
        if not _is_weight(part):
            yield Problem(where, f"found '{part[:40]}'; a weight is a number above 0")
    for other in site.queues.values():
        if other.name != name and other.annotations.get(HIERARCHY, "").startswith(f"{path}/"):
            yield Problem(
                f"metadata.annotations.[{HIERARCHY}]",
                f"queue '{other.name}' lies below '{path[:60]}'",
            )


def _is_weight(part: str) -> bool:
    try:
        return parse_quantity(part) > 0
    except ValueError:
        return False


def _parent_problems(name: str, parent: str, site: Site) -> Iterator[Problem]:
    path = "spec.parent"
    if parent == name:
        yield Problem(path, "a queue is not its own parent")
        return
    found = site.queues.get(parent)
    if found is None:
        yield Problem(path, f"there is no queue '{parent[:60]}'")
        return
    above = _above(parent, site)
    if name in above:
        yield Problem(path, f"queue '{parent}' lies below '{name}' itself")
    depth = len(above) + 1
    if depth > DEPTH_MAX:
        yield Problem(path, f"queue '{name}' would be at depth {depth}; at most {DEPTH_MAX}")
    if not site.children(parent) and found.allocated_pods:
        yield Problem(
            path, f"queue '{parent}' has {found.allocated_pods} pods of its own, so none below it"
        )


def _above(name: str, site: Site) -> list[str]:
    """A queue and those above it, below root; each once."""
    found: list[str] = []
    while name and name != ROOT and name in site.queues and name not in found:
        found.append(name)
        name = site.queues[name].parent
    return found


def _tree_problems(queue: QueueSeen, site: Site) -> Iterator[Problem]:
    """What a queue and its neighbours may have together."""
    # The queue as it would be takes the place of what is there.
    there = Site({**site.queues, queue.name: queue}, schedulers=site.schedulers)
    own = queue.amounts("capability")
    for resource, most in own.items():
        for above in _above(queue.parent, there):
            limit = there.queues[above].amounts("capability").get(resource)
            if limit is not None:
                if most > limit:
                    yield Problem(
                        f"spec.capability.{resource}",
                        f"is above that of queue '{above}', {decimal(limit)}",
                    )
                break
        below = _largest_below(queue.name, resource, there, frozenset({queue.name}))
        if below is not None and below > most:
            yield Problem(
                f"spec.capability.{resource}", f"a queue below it has more: {decimal(below)}"
            )
    for share in _OWN:
        if queue.parent not in ("", ROOT) and queue.parent in there.queues:
            yield from _sum_problems(queue.parent, share, there, f"above queue '{queue.parent}'")
        yield from _sum_problems(queue.name, share, there, "of the queues below it")


def _largest_below(name: str, resource: str, site: Site, seen: frozenset[str]) -> Fraction | None:
    found: list[Fraction] = []
    for child in site.children(name):
        if child.name in seen:
            continue
        own = child.amounts("capability").get(resource)
        below = (
            own
            if own is not None
            else _largest_below(child.name, resource, site, seen | {child.name})
        )
        if below is not None:
            found.append(below)
    return max(found, default=None)


def _sum_problems(parent: str, share: str, site: Site, words: str) -> Iterator[Problem]:
    """Children together have at most what their parent has; what it does not list counts as 0."""
    total: dict[str, Fraction] = {}
    for child in site.children(parent):
        for resource, number in child.amounts(share).items():
            total[resource] = total.get(resource, Fraction(0)) + number
    has = site.queues[parent].amounts(share)
    for resource, number in total.items():
        if number > has.get(resource, Fraction(0)):
            most = decimal(has.get(resource, Fraction(0)))
            yield Problem(
                f"spec.{share}.{resource}",
                f"{decimal(number)} in all {words} of queue '{parent}', which has {most}",
            )
