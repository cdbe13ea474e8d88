"""What Kubernetes asks of a pod template, as far as it can be told without a cluster."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from api.k8s.volcano import words
from api.k8s.volcano.quantity import parse_quantity
from api.k8s.volcano.shape import Tree
from scheduler.errors import Problem

RESTART_POLICIES = ("Always", "OnFailure", "Never")
NATIVE = ("cpu", "memory", "ephemeral-storage")
"""Resources that may be fractions, and whose limit may exceed the request."""

_HUGE_PAGES = "hugepages-"


def template_problems(template: Tree, path: str) -> Iterator[Problem]:
    """What is wrong with a pod template whose fields are of the right kinds."""
    meta, spec = tree(template, "metadata"), tree(template, "spec")
    for key in ("labels", "annotations"):
        for name in tree(meta, key):
            if not words.is_key(name):
                yield Problem(f"{path}.metadata.{key}", words.wrong(name, words.QUALIFIED))
    for name, value in tree(meta, "labels").items():
        if value and not words.is_qualified(str(value)):
            yield Problem(f"{path}.metadata.labels.{name}", words.wrong(str(value), "63 letters"))
    yield from spec_problems(spec, f"{path}.spec")


def spec_problems(spec: Tree, path: str) -> Iterator[Problem]:
    """What is wrong with the spec of a pod."""
    containers = trees(spec, "containers")
    if not containers:
        yield Problem(f"{path}.containers", "is required; a pod has at least one container")
    seen: dict[str, str] = {}
    volumes = [str(v.get("name", "")) for v in trees(spec, "volumes")]
    for index, name in enumerate(volumes):
        if not words.is_label(name):
            yield Problem(f"{path}.volumes[{index}].name", words.wrong(name, words.LABEL))
        elif name in volumes[:index]:
            yield Problem(f"{path}.volumes[{index}].name", f"'{name}' comes twice")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(trees(spec, field)):
            where = f"{path}.{field}[{index}]"
            yield from _container_problems(container, where, volumes)
            name = str(container.get("name", ""))
            if name and name in seen:
                yield Problem(f"{where}.name", f"'{name}' is the name of {seen[name]} too")
            seen.setdefault(name, where)
    policy = spec.get("restartPolicy")
    if policy is not None and policy not in RESTART_POLICIES:
        allowed = ", ".join(RESTART_POLICIES)
        yield Problem(f"{path}.restartPolicy", f"found '{policy}'; allowed are {allowed}")
    for key in tree(spec, "nodeSelector"):
        if not words.is_key(key):
            yield Problem(f"{path}.nodeSelector", words.wrong(key, words.QUALIFIED))


def _container_problems(container: Tree, path: str, volumes: list[str]) -> Iterator[Problem]:
    name = str(container.get("name", ""))
    if not words.is_label(name):
        found = words.wrong(name, words.LABEL) if name else "is required"
        yield Problem(f"{path}.name", found)
    image = str(container.get("image", ""))
    if not image or image != image.strip():
        yield Problem(f"{path}.image", f"found '{image[:60]}'; an image is required")
    for index, entry in enumerate(trees(container, "env")):
        env = str(entry.get("name", ""))
        if not words.is_env_name(env):
            said = "is required" if not env else f"found '{env[:60]}'; it is printable, without '='"
            yield Problem(f"{path}.env[{index}].name", said)
    paths: set[str] = set()
    for index, mount in enumerate(trees(container, "volumeMounts")):
        where = f"{path}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            yield Problem(f"{where}.name", f"no volume '{mount.get('name', '')}' in this pod")
        at = str(mount.get("mountPath", ""))
        if not at or at in paths:
            yield Problem(f"{where}.mountPath", "is required, and once each")
        paths.add(at)
    yield from _resource_problems(tree(container, "resources"), f"{path}.resources")


def _resource_problems(resources: Tree, path: str) -> Iterator[Problem]:
    limits, requests = given(resources, "limits"), given(resources, "requests")
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where, number = f"{path}.{field}.{name}", parse_quantity(value)
            if not words.is_key(name):
                yield Problem(f"{path}.{field}", words.wrong(name, words.QUALIFIED))
            elif number < 0:
                yield Problem(where, f"found {value}; it must be at least 0")
            elif is_extended(name) and number.denominator != 1:
                yield Problem(where, f"found {value}; it must be a whole number")
    for name, value in requests.items():
        where, wanted = f"{path}.requests.{name}", parse_quantity(value)
        most = parse_quantity(limits[name]) if name in limits else None
        if most is None:
            if is_extended(name):
                yield Problem(f"{path}.limits.{name}", "is required, equal to the request")
        elif is_extended(name) and wanted != most:
            yield Problem(where, f"found {value}; it must equal the limit, {limits[name]}")
        elif wanted > most:
            yield Problem(where, f"found {value}; it must be at most the limit, {limits[name]}")


def is_extended(name: str) -> bool:
    """Whether a resource is counted in whole units: a device and the like."""
    if name.startswith(_HUGE_PAGES) or name in NATIVE:
        return False
    domain, slash, _ = name.rpartition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def is_counted(name: str) -> bool:
    """Whether a queue's amount of it must be whole."""
    return name == "pods" or name.startswith("count/") or is_extended(name)


def requests_of(spec: Tree) -> dict[str, Fraction]:
    """What a pod asks for: its containers together, or its largest init container, and overhead.

    A limit counts as the request where none is given.
    """
    total: dict[str, Fraction] = {}
    for container in trees(spec, "containers"):
        for name, number in _asked(container).items():
            total[name] = total.get(name, Fraction(0)) + number
    for container in trees(spec, "initContainers"):
        for name, number in _asked(container).items():
            total[name] = max(total.get(name, Fraction(0)), number)
    for name, value in given(spec, "overhead").items():
        total[name] = total.get(name, Fraction(0)) + parse_quantity(value)
    return total


def _asked(container: Tree) -> dict[str, Fraction]:
    resources = tree(container, "resources")
    merged = given(resources, "limits") | given(resources, "requests")
    return {name: parse_quantity(value) for name, value in merged.items()}


def whole_cpus(container: Tree) -> bool:
    """Whether a container asks for whole CPUs, as binding to a NUMA node needs."""
    cpu = _asked(container).get("cpu", Fraction(0))
    return cpu > 0 and cpu.denominator == 1


# -- reading checked trees ------------------------------------------------------------------------


def tree(value: Mapping[str, object], name: str) -> Tree:
    """An object inside an object, empty where there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def given(value: Mapping[str, object], name: str) -> Tree:
    """An object inside an object without its nulls, which count as left out."""
    return {key: item for key, item in tree(value, name).items() if item is not None}


def trees(value: Mapping[str, object], name: str) -> list[Tree]:
    """A list of objects inside an object, empty where there is none."""
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def texts(value: Mapping[str, object], name: str) -> list[str]:
    """A list of texts inside an object, empty where there is none."""
    found = value.get(name)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def text_at(value: Mapping[str, object], name: str) -> str:
    """A text inside an object, "" where there is none."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def number_at(value: Mapping[str, object], name: str, default: int = 0) -> int:
    """A whole number inside an object, `default` where there is none."""
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else default
