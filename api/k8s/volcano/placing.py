"""Where pods of a template may run, in the words of a job: labels, nodes, taints, one per node.

Podyard chooses nodes for a gang as a whole, so what one task asks for holds for all. What cannot be
said so is refused; what is only a wish is left out, with a warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from api.k8s.volcano.pod_rules import text_at, texts, tree, trees
from api.k8s.volcano.shape import Tree
from scheduler.errors import Problem

HOSTNAME = "kubernetes.io/hostname"
ALWAYS = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}
"""Labels that every node has without saying so."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(slots=True)
class Where:
    """What all pods of a gang ask of nodes.

    Attributes:
        nodes: None = any.
        tolerations: As the API of jobs takes them, each once.
    """

    labels: dict[str, str] = field(default_factory=dict)
    nodes: list[str] | None = None
    tolerations: list[Tree] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def where_of(tasks: Sequence[Tree]) -> Where:
    """What the templates of all tasks ask for together."""
    where = Where()
    asked: list[Mapping[str, str]] = []
    for index, task in enumerate(tasks):
        spec, path = tree(tree(task, "template"), "spec"), f"spec.tasks[{index}].template.spec"
        labels = _labels(where, spec, path)
        asked.append(labels)
        _merge(where, labels, path)
        if text_at(spec, "nodeName"):
            _only(where, [text_at(spec, "nodeName")], f"{path}.nodeName")
        _tolerate(where, spec, path)
        _wishes(where, spec, path)
    if any(labels != asked[0] for labels in asked):
        where.warnings.append(
            "nodeSelector differs between tasks: nodes are chosen for the whole gang, so all tasks "
            "run on nodes with all of the labels"
        )
    return where


def one_per_node(spec: Tree, labels: Mapping[str, object]) -> bool:
    """Whether a pod keeps others like it off its node."""
    anti = tree(tree(spec, "affinity"), "podAntiAffinity")
    return any(
        text_at(term, "topologyKey") == HOSTNAME and _selects(tree(term, "labelSelector"), labels)
        for term in trees(anti, _REQUIRED)
    )


def _selects(selector: Tree, labels: Mapping[str, object]) -> bool:
    """Whether a selector with plain equalities takes these labels."""
    wanted = tree(selector, "matchLabels")
    return not trees(selector, "matchExpressions") and all(
        labels.get(key) == value for key, value in wanted.items()
    )


def _labels(where: Where, spec: Tree, path: str) -> dict[str, str]:
    found = {k: str(v) for k, v in tree(spec, "nodeSelector").items() if ALWAYS.get(k) != v}
    node = tree(tree(spec, "affinity"), "nodeAffinity")
    terms = trees(tree(node, _REQUIRED), "nodeSelectorTerms")
    if len(terms) > 1:
        where.problems.append(
            Problem(f"{path}.affinity.nodeAffinity", "has several terms; one is all there can be")
        )
    for term in terms[:1]:
        for key, values, at in _expressions(where, term, path):
            if key == HOSTNAME:
                _only(where, values, at)
            elif len(values) == 1:
                found[key] = values[0]
            else:
                message = (
                    f"asks for one of {len(values)} values of '{key}'; one is all there can be"
                )
                where.problems.append(Problem(at, message))
    hostname = found.pop(HOSTNAME, None)
    if hostname is not None:
        _only(where, [hostname], f"{path}.nodeSelector")
    return found


def _expressions(where: Where, term: Tree, path: str) -> Iterator[tuple[str, list[str], str]]:
    """Key, values and path of each expression `In`; others are refused."""
    for kind in ("matchExpressions", "matchFields"):
        for index, expression in enumerate(trees(term, kind)):
            at = f"{path}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].{kind}[{index}]"
            key, values = text_at(expression, "key"), texts(expression, "values")
            if kind == "matchFields" and key == "metadata.name":
                key = HOSTNAME
            if text_at(expression, "operator") != "In" or not key or not values:
                where.problems.append(Problem(at, "is not supported; only operator In is"))
            elif ALWAYS.get(key) not in values:
                yield key, values, at


def _merge(where: Where, labels: Mapping[str, str], path: str) -> None:
    for key, value in labels.items():
        known = where.labels.setdefault(key, value)
        if known != value:
            where.problems.append(
                Problem(
                    f"{path}.nodeSelector",
                    f"asks for '{key}' = '{value}', another task for '{known}'; nodes are chosen "
                    "for the whole gang",
                )
            )


def _only(where: Where, names: Sequence[str], path: str) -> None:
    names = list(dict.fromkeys(names))
    left = names if where.nodes is None else [n for n in where.nodes if n in names]
    if not left:
        where.problems.append(Problem(path, "leaves no node that all tasks may run on"))
    where.nodes = left


def _tolerate(where: Where, spec: Tree, path: str) -> None:
    for index, item in enumerate(trees(spec, "tolerations")):
        at = f"{path}.tolerations[{index}]"
        operator, effect = text_at(item, "operator") or "Equal", text_at(item, "effect")
        key = text_at(item, "key")
        if operator not in ("Equal", "Exists"):
            where.problems.append(Problem(f"{at}.operator", "allowed are Equal, Exists"))
        elif effect and effect not in EFFECTS:
            where.problems.append(Problem(f"{at}.effect", f"allowed are {', '.join(EFFECTS)}"))
        elif not key and operator == "Equal":
            where.problems.append(Problem(f"{at}.key", "is required unless operator is Exists"))
        else:
            made: Tree = {"operator": operator, "value": text_at(item, "value")}
            made |= {"key": key} if key else {}
            made |= {"effect": effect} if effect else {}
            if made not in where.tolerations:
                where.tolerations.append(made)


def _wishes(where: Where, spec: Tree, path: str) -> None:
    """What is not acted on: refused where it must hold, warned of where it is a wish."""
    affinity, template = tree(spec, "affinity"), path.removesuffix(".spec")
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = trees(tree(affinity, kind), _REQUIRED)
        foreign = [
            t for t in terms if kind == "podAffinity" or text_at(t, "topologyKey") != HOSTNAME
        ]
        if foreign:
            where.problems.append(
                Problem(
                    f"{path}.affinity.{kind}.{_REQUIRED}",
                    "is not supported; say where pods lie by networkTopology",
                )
            )
        if trees(tree(affinity, kind), _PREFERRED):
            where.warnings.append(f"{template}: preferred {kind} is not acted on")
    if trees(tree(affinity, "nodeAffinity"), _PREFERRED):
        where.warnings.append(f"{template}: preferred nodeAffinity is not acted on")
    if trees(spec, "topologySpreadConstraints"):
        where.warnings.append(f"{template}: topologySpreadConstraints are not acted on")
