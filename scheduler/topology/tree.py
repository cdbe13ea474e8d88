"""The immutable tree of domains with dense indices.

Nodes are numbered in tree order, so that every domain is a contiguous range of nodes and its
children a contiguous range of domains of the next level. A node that has no place at a level sits
there in a *blank* domain of its own branch, which keeps the tree regular but holds no rule.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.model.node import FabricLevel, NodeRecord, NodeType, RackRecord, TaintEffect
from scheduler.topology.dead_rails import dead_rails_of


@dataclass(frozen=True, slots=True)
class Level:
    """A row of domains of one kind, outermost level first in `Topology.levels`.

    Every list is indexed by the domain's index in this level, which follows tree order.

    Attributes:
        name: E.g. `rack`; the last level is `node`.
        names: Name of each domain; "" for a blank one.
        parent: Index of the parent in the level above; all 0 for the outermost level.
        node_lo, node_hi: The domain's nodes are `node_lo <= node_index < node_hi`.
        child_lo, child_hi: Its children in the level below; equal to the nodes for the last but
            one.
    """

    name: str
    names: tuple[str, ...]
    parent: tuple[int, ...]
    node_lo: tuple[int, ...]
    node_hi: tuple[int, ...]
    child_lo: tuple[int, ...]
    child_hi: tuple[int, ...]

    def is_blank(self, domain: int) -> bool:
        return not self.names[domain]


@dataclass(frozen=True, slots=True)
class PowerBudget:
    """Watts that the nodes `node_lo <= node_index < node_hi` may draw together."""

    node_lo: int
    node_hi: int
    power_w: int


@dataclass(frozen=True, slots=True)
class Topology:
    """A cluster's nodes and domains, fixed for as long as the inventory stays the same.

    Attributes:
        levels: Outermost first; the last is the nodes themselves.
        nodes: Node records in tree order; a node's position is its `node_index`.
        types: Node type of each node, by `node_index`.
        place: For each level, the index of the domain that holds each node:
            `place[level][node_index]`.
        node_index: Node name -> `node_index`.
        level_index: Level name -> position in `levels`.
        scale_up: Name of the level that `scale_up` in a rule means, unless a node type says
            otherwise.
        fabric: The scale-out network by level name.
        blanks: For each level, whether it has a blank domain.
        kinds: The node types that occur, by name.
        dead_rails: Node index -> mask of its dead rails, of nodes that have any.
        shunned: Indices of the nodes with a `PreferNoSchedule` taint.
        power: Sets of nodes with a power budget; empty where no rack states one.
        power_of: Node index -> position in `power`, of nodes with a budget.
    """

    cluster: str
    levels: tuple[Level, ...]
    nodes: tuple[NodeRecord, ...]
    types: tuple[NodeType, ...]
    place: tuple[tuple[int, ...], ...]
    node_index: Mapping[str, int]
    level_index: Mapping[str, int]
    scale_up: str
    fabric: Mapping[str, FabricLevel] = field(default_factory=dict)
    racks: Mapping[str, RackRecord] = field(default_factory=dict)
    sets: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    blanks: tuple[bool, ...] = field(init=False)
    kinds: tuple[NodeType, ...] = field(init=False)
    dead_rails: Mapping[int, int] = field(init=False)
    shunned: frozenset[int] = field(init=False)
    power: tuple[PowerBudget, ...] = field(init=False)
    power_of: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blanks", tuple("" in level.names for level in self.levels))
        kinds = {kind.name: kind for kind in self.types}
        object.__setattr__(self, "kinds", tuple(kinds[name] for name in sorted(kinds)))
        object.__setattr__(self, "dead_rails", dead_rails_of(self.nodes, self.types))
        shunned = (
            index
            for index, node in enumerate(self.nodes)
            if any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in node.taints)
        )
        object.__setattr__(self, "shunned", frozenset(shunned))
        object.__setattr__(self, "power", tuple(self._budgets()))
        within = {
            node: position
            for position, budget in enumerate(self.power)
            for node in range(budget.node_lo, budget.node_hi)
        }
        object.__setattr__(self, "power_of", within)

    def _budgets(self) -> Iterator[PowerBudget]:
        """Racks that state a budget below what their nodes draw together.

        A rack is a domain of the innermost level that has one of its name.
        """
        wanted = {name: rack.power_w for name, rack in self.racks.items() if rack.power_w}
        for level in reversed(self.levels[:-1]):
            for domain, name in enumerate(level.names if wanted else ()):
                power_w = wanted.pop(name, 0)
                lo, hi = level.node_lo[domain], level.node_hi[domain]
                if power_w and power_w < sum(self.types[node].power_w for node in range(lo, hi)):
                    yield PowerBudget(lo, hi, power_w)

    @property
    def node_count(self) -> int:
        return len(self.nodes)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)

    def inside(self, level: int, domain: int, inner: int) -> tuple[int, int]:
        """Range of the domains of a level further in (or the same) that lie in one domain."""
        if inner == level:
            return domain, domain + 1
        lo, hi = self.levels[level].node_lo[domain], self.levels[level].node_hi[domain]
        row = self.place[inner]
        return row[lo], row[hi - 1] + 1

    def domains_of(self, node_index: int) -> dict[str, str | None]:
        """The node's place at every level but the last; None where it has none."""
        return {
            level.name: level.names[self.place[depth][node_index]] or None
            for depth, level in enumerate(self.levels[:-1])
        }

    def scale_up_level(self, node_type: NodeType) -> str:
        """The level that `scale_up` means for nodes of this type."""
        return node_type.scale_up or self.scale_up
