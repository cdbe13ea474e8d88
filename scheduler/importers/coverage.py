"""What a description tells of a cluster; an import leaves alone what it does not tell."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a description tells.

    Attributes:
        whole: All that an inventory can say, so that what is not in it is not there.
        cluster: The cluster's name.
        levels: The levels, and the place of each of its nodes in them.
        labels: Labels and taints of its nodes.
        untold_types: Types in it that stand for hardware of which it tells nothing.
        asks_for_type: It has nodes whose hardware whoever imports it should tell.
    """

    whole: bool = True
    cluster: bool = True
    levels: bool = True
    labels: bool = True
    untold_types: frozenset[str] = frozenset()
    asks_for_type: bool = False


WHOLE = Coverage()
"""That of Podyard's own format."""
