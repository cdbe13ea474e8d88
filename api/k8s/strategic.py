"""Strategic merge patches: merge patches that know by which key a list of objects is merged."""

import copy
from collections.abc import Mapping
from typing import Any

from api.k8s.errors import bad_request
from api.k8s.kinds import Obj

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "secrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "conditions": "type",
    "addresses": "type",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}
"""By the name of the list. `ports` is told apart by what its entries have; taints and tolerations
are replaced as a whole, as Kubernetes does."""

SETS = frozenset({"finalizers", "podCIDRs"})
"""Lists of plain values that are merged."""

ORDER, FROM_LIST, RETAIN, DIRECTIVE = (
    "$setElementOrder/",
    "$deleteFromPrimitiveList/",
    "$retainKeys",
    "$patch",
)


def strategic_merge(target: Obj, patch: Obj) -> Obj:
    """The target with a patch merged in; neither is changed.

    Raises:
        StatusError: 400 if the patch has directives that make no sense.
    """
    merged = _merge_map(target, patch)
    return merged if merged is not None else {}


def _merge_map(target: Obj, patch: Obj) -> Obj | None:
    """None where the patch says that the whole is to go."""
    directive = patch.get(DIRECTIVE)
    if directive == "delete":
        return None
    if directive == "replace":
        return {k: copy.deepcopy(v) for k, v in patch.items() if k != DIRECTIVE}
    if directive not in (None, "merge"):
        raise bad_request(f"$patch is {str(directive)[:80]!r}; allowed are delete, replace, merge")
    merged = dict(target)
    if RETAIN in patch:
        kept = _list(patch, RETAIN)
        merged = {k: v for k, v in merged.items() if k in kept}
    for key, value in patch.items():
        if key in (DIRECTIVE, RETAIN) or key.startswith(ORDER):
            continue
        if key.startswith(FROM_LIST):
            name = key.removeprefix(FROM_LIST)
            gone = _list(patch, key)
            merged[name] = [v for v in merged.get(name) or [] if v not in gone]
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_field(merged, key, value)
    for key in [k for k in patch if k.startswith(ORDER)]:
        name = key.removeprefix(ORDER)
        if isinstance(merged.get(name), list):
            merged[name] = _ordered(name, merged[name], _list(patch, key))
    return merged


def _merge_field(merged: Obj, key: str, value: object) -> None:
    if isinstance(value, dict):
        there = merged.get(key)
        found = _merge_map(there if isinstance(there, dict) else {}, value)
        if found is None:
            merged.pop(key, None)
        else:
            merged[key] = found
    elif isinstance(value, list):
        there = merged.get(key)
        merged[key] = _merge_list(key, there if isinstance(there, list) else [], value)
    else:
        merged[key] = value


def _merge_list(name: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if name in SETS:
        return target + [v for v in patch if v not in target]
    key = merge_key(name, [*target, *patch])
    if key is None or any(not isinstance(item, dict) for item in (*target, *patch)):
        return copy.deepcopy(patch)
    if any(item.get(DIRECTIVE) == "replace" and len(item) == 1 for item in patch):
        return [copy.deepcopy(i) for i in patch if DIRECTIVE not in i]
    merged = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f'an entry of the list "{name}" does not have the merge key "{key}"')
        at = next((i for i, t in enumerate(merged) if t.get(key) == item[key]), None)
        found = _merge_map(merged[at] if at is not None else {}, item)
        if at is None:
            merged += [found] if found is not None else []
        elif found is None:
            del merged[at]
        else:
            merged[at] = found
    return merged


def merge_key(name: str, items: list[Any]) -> str | None:
    """By which key a list of objects is merged; None = it is replaced as a whole."""
    if name == "ports":
        first = next((item for item in items if isinstance(item, dict)), {})
        return "containerPort" if "containerPort" in first else "port"
    return MERGE_KEYS.get(name)


def _ordered(name: str, items: list[Any], order: list[Any]) -> list[Any]:
    key = merge_key(name, items)

    def place(item: Any) -> int:  # noqa: ANN401  # an entry of any list
        for at, wanted in enumerate(order):
            if isinstance(wanted, dict) and isinstance(item, dict) and key is not None:
                if wanted.get(key) == item.get(key):
                    return at
            elif wanted == item:
                return at
        return len(order)

    return sorted(items, key=place)


def _list(patch: Obj, key: str) -> list[Any]:
    found = patch[key]
    if not isinstance(found, list):
        raise bad_request(f"{key[:80]} must be a list")
    return found
