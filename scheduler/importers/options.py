"""What whoever imports a description knows beside it, and names as an inventory allows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.importers.fields import name_problem, place_problem
from scheduler.importers.podyard_nodes import FIELDS
from scheduler.importers.refusals import Refusals, refuse
from scheduler.model.node import NODE_LEVEL, NodeType

RESERVED_LEVELS = (*FIELDS, "scale_up", NODE_LEVEL)
"""Names that mean something else where an inventory is written down."""

JOINT_NAME_MAX = 40
"""Characters of a name that lists what it joins; beyond, it is the first and how many more."""


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for a whole import.

    Attributes:
        cluster: Name of the cluster where the text has none.
        node_type: Type of the nodes whose hardware the text does not tell.
        scale_up: Level inside which GPUs talk over the scale-up links, where it is not the one that
            the format itself names.
        level_names: Names of the levels from the nodes outwards, in formats that have none.
    """

    cluster: str = "default"
    node_type: NodeType | None = None
    scale_up: str | None = None
    level_names: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse options that no inventory can be made with.

        Raises:
            InventoryError: If a name is none, or a level's name is taken.
        """
        refusals = Refusals()
        named = [("cluster", self.cluster), *(("level_names", name) for name in self.level_names)]
        for path, name in named:
            problem = name_problem(name)
            if problem is not None:
                refusals.add(path, problem)
        for name in self.level_names:
            if name in RESERVED_LEVELS:
                refusals.add("level_names", f"'{name}' is not a name for a level")
        if len(set(self.level_names)) < len(self.level_names):
            refusals.add("level_names", f"a level comes twice: {', '.join(self.level_names)}")
        refusals.raise_if_any()

    def scale_up_of(self, levels: Sequence[str], default: str = NODE_LEVEL) -> str:
        """The scale-up level of an inventory with these levels.

        Raises:
            InventoryError: If the wanted one is not among them.
        """
        wanted = self.scale_up or default
        if wanted not in levels:
            raise refuse("scale_up", f"'{wanted}' is not among the levels {', '.join(levels)}")
        return wanted


DEFAULTS = Options()
"""Nothing known beside the text."""


def joint_name(names: Sequence[str]) -> str:
    """A name for a domain that joins several things, none of which may be missing."""
    joined = "+".join(names)
    return joined if len(joined) <= JOINT_NAME_MAX else f"{names[0]}+{len(names) - 1}"


def check_places(names: Sequence[str], path: str, refusals: Refusals, *, line: int = 0) -> None:
    """Note the first of these names that cannot be a domain's."""
    problem = next(filter(None, map(place_problem, names)), None)
    if problem is not None:
        refusals.add(path, problem, line=line)


def check_nodes(names: Sequence[str], path: str, refusals: Refusals, *, line: int = 0) -> None:
    """Note the first of these names that cannot be a node's."""
    problem = next(filter(None, map(name_problem, names)), None)
    if problem is not None:
        refusals.add(path, problem, line=line)
