"""Levels as Volcano's tiers: tier 1 is the innermost level above a node, and so on outwards."""

from collections.abc import Sequence
from dataclasses import dataclass

from api.k8s.volcano.pod_rules import number_at, text_at
from api.k8s.volcano.shape import Tree
from scheduler.errors import Problem


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers of one topology.

    Attributes:
        levels: Names of its levels, outermost first; the last is that of the nodes themselves.
    """

    levels: Sequence[str]

    @property
    def count(self) -> int:
        """Tiers above a node."""
        return max(0, len(self.levels) - 1)

    def level(self, tier: int) -> str | None:
        """The level of a tier, 0 for nodes; None where there is no level so far out."""
        return self.levels[-1 - tier] if 0 <= tier < len(self.levels) else None

    def tier(self, level: str) -> int | None:
        """The tier of a level; None where there is none of that name."""
        return len(self.levels) - 1 - self.levels.index(level) if level in self.levels else None


@dataclass(frozen=True, slots=True)
class Within:
    """What a network topology asks for: pods in one domain of a level."""

    level: str
    mode: str


def within_of(found: Tree, tiers: Tiers) -> Within | None:
    """The rule that `networkTopology` stands for; None where it asks for nothing.

    A tier beyond the outermost level holds the whole cluster. Without a tier, soft means as near
    as can be, which is what placements are anyway.

    Raises:
        ValueError: If a tier is named that no level is called; the message names those there are.
    """
    if not found:
        return None
    mode = "preferred" if text_at(found, "mode") == "soft" else "required"
    name = text_at(found, "highestTierName")
    if name:
        if tiers.tier(name) is None:
            allowed = ", ".join(tiers.levels) or "none: there are no nodes yet"
            raise ValueError(f"found '{name[:60]}'; the tiers are {allowed}")
        return Within(name, mode)
    if found.get("highestTierAllowed") is None:
        level = tiers.level(1)
        return Within(level, mode) if mode == "preferred" and level is not None else None
    level = tiers.level(number_at(found, "highestTierAllowed"))
    return None if level is None else Within(level, mode)


def tier_problem(found: Tree, tiers: Tiers, path: str) -> Problem | None:
    """A tier that is named and is not there."""
    try:
        within_of(found, tiers)
    except ValueError as error:
        return Problem(f"{path}.networkTopology.highestTierName", str(error))
    return None
