"""What a request says of a text beside it: its format, and what the text itself does not tell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from scheduler.errors import InventoryError, Problem
from scheduler.importers.domain_levels import DOMAIN_LEVEL
from scheduler.importers.k8s_labels import DOMAIN_LABELS, LABEL_LEVELS, SET_LABELS, LabelLevels
from scheduler.importers.machines import NAMELESS_GPU, Machine, node_type_of
from scheduler.importers.node_type_data import BUILT_IN
from scheduler.importers.node_types import default_rails
from scheduler.importers.options import Options
from scheduler.model.node import NodeType

KnownType = Callable[[str], NodeType | None]
"""The node type of a name among those that the cluster has already."""

PODYARD = "podyard"
"""The format of our own."""

_HARDWARE = ("node_type", "gpu", "gpus")
_COMMON = ("cluster", "scale_up", *_HARDWARE)

USED: Mapping[str, tuple[str, ...]] = {
    "podyard": (),
    "slurm": (*_COMMON, "level_names", "topology"),
    "topograph": (*_COMMON, "level_names"),
    "kubernetes": (*_COMMON, "label_levels", "label_sets"),
    "csv": (*_COMMON, "columns"),
    "ibnetdiscover": (*_COMMON, "level_names"),
    "sharp": (*_COMMON, "level_names"),
    "nccl": _HARDWARE,
    "nvidia-smi": _HARDWARE,
}
"""For each format the fields of `Asked` that it has a use for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says; "" and None = nothing. Lists are as written, with commas.

    Attributes:
        format: One of `USED`; guessed without.
        cluster: Name of the cluster.
        node_type: Type of the nodes whose hardware the text does not tell.
        gpu, gpus: The model and number of GPUs of such a node.
        scale_up: Level inside which GPUs talk over NVLink or the like.
        level_names: Names of the levels from the nodes outwards.
        label_levels: `level:label` for each level, outermost first.
        label_sets: `kind:label` for each kind of named sets.
        columns: `column:meaning` for each column that is used.
        topology: Which topology of a file that holds several.
    """

    format: str = ""
    cluster: str = ""
    node_type: str = ""
    gpu: str = ""
    gpus: int | None = None
    scale_up: str = ""
    level_names: str = ""
    label_levels: str = ""
    label_sets: str = ""
    columns: str = ""
    topology: str = ""


NOTHING_ASKED = Asked()


@dataclass(frozen=True, slots=True)
class Labels:
    """Which label of a Kubernetes node tells what."""

    levels: LabelLevels
    domains: tuple[str, ...]
    sets: Mapping[str, str]


def check_used(asked: Asked, format_name: str) -> None:
    """Refuse what the format has no use for, rather than overlook it.

    Raises:
        InventoryError: Naming each such field and the formats that have a use for it.
    """
    problems = []
    for option in fields(asked):
        given = getattr(asked, option.name) not in ("", None)
        if not given or option.name == "format" or option.name in USED[format_name]:
            continue
        users = ", ".join(name for name, used in USED.items() if option.name in used)
        problems.append(
            Problem(option.name, f"'{format_name}' has no use for it; it is for {users}")
        )
    if problems:
        raise InventoryError(problems)


def options_of(asked: Asked, known: KnownType) -> Options:
    """The same as the importers take it.

    Raises:
        InventoryError: If the node type is not known, or contradicts itself.
    """
    defaults = Options()
    return Options(
        cluster=asked.cluster or defaults.cluster,
        node_type=_node_type(asked, known),
        scale_up=asked.scale_up or None,
        level_names=_listed(asked.level_names),
    )


def _node_type(asked: Asked, known: KnownType) -> NodeType | None:
    if asked.node_type:
        return _named_type(asked, known)
    if asked.gpus is None:
        if asked.gpu:
            raise _refused("gpu", "say with `gpus` how many of them a node has")
        return None
    return node_type_of(Machine(asked.gpu or NAMELESS_GPU if asked.gpus else "", asked.gpus))


def _named_type(asked: Asked, known: KnownType) -> NodeType:
    name, gpus = asked.node_type, asked.gpus
    found = known(name) or BUILT_IN.get(name)
    if found is None and gpus is not None:
        gpu = asked.gpu or NAMELESS_GPU if gpus else ""
        return NodeType(name, gpu=gpu, gpus=gpus, rail_of_gpu=default_rails(gpus, 0))
    if found is None:
        raise _refused(
            "node_type",
            f"'{name}' is no type of this cluster and not built in; built in are "
            f"{', '.join(sorted(BUILT_IN))}; of another one say how many `gpus` it has",
        )
    if gpus not in (None, found.gpus):
        raise _refused("gpus", f"type '{name}' has {found.gpus} GPUs, not {gpus}")
    if asked.gpu not in ("", found.gpu):
        raise _refused("gpu", f"type '{name}' has the GPU '{found.gpu}', not '{asked.gpu}'")
    return found


def labels_of(asked: Asked) -> Labels:
    """The table of labels: the usual one, or what the request puts in its place.

    A level that is named again has several labels, of which the first that a node has counts. The
    level of scale-up domains finds its own place among the others.

    Raises:
        InventoryError: If a part is not `level:label`.
    """
    sets = dict(pairs("label_sets", asked.label_sets)) or SET_LABELS
    if not asked.label_levels:
        return Labels(LABEL_LEVELS, DOMAIN_LABELS, sets)
    found: dict[str, tuple[str, ...]] = {}
    for level, label in pairs("label_levels", asked.label_levels):
        found[level] = (*found.get(level, ()), label)
    domains = found.pop(DOMAIN_LEVEL, DOMAIN_LABELS)
    return Labels(found, domains, sets)


def pairs(path: str, text: str) -> list[tuple[str, str]]:
    """`a:b,c:d` as pairs.

    Raises:
        InventoryError: If a part is no pair.
    """
    found = []
    for part in _listed(text):
        key, colon, value = (piece.strip() for piece in part.partition(":"))
        if not (key and colon and value):
            raise _refused(path, f"found '{part[:60]}'; expected name:value,name:value")
        found.append((key, value))
    return found


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in (piece.strip() for piece in text.split(",")) if part)


def _refused(path: str, message: str) -> InventoryError:
    return InventoryError(Problem(path, message))
