"""Edits on the node table that can be rolled back, and the counts that follow them."""

from collections.abc import Callable, Iterable

from scheduler.cluster.nodes import Held, NodeTable
from scheduler.cluster.view import Shape, View
from scheduler.model.placement import PodPlace

VIEW_LIMIT = 256
"""Shapes whose counts are kept; the one used longest ago goes first."""


class Trial:
    """What-if edits on one node table.

    Marks nest: roll back to an earlier mark and everything after it is undone, newest first.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._views: dict[Shape, View] = {}
        self._done: list[tuple[Callable[[Held], None], Held]] = []
        """What undoes each edit, newest last."""

    def view(self, shape: Shape) -> View:
        """Counts of a shape as of now."""
        found = self._views.pop(shape, None)
        if found is None:
            found = View(self.table, shape)
            if len(self._views) >= VIEW_LIMIT:
                del self._views[next(iter(self._views))]
        else:
            found.sync()
        self._views[shape] = found
        return found

    def mark(self) -> int:
        return len(self._done)

    def hold(self, held: Held) -> None:
        self.table.hold(held)
        self._done.append((self.table.release, held))

    def hold_places(self, places: Iterable[PodPlace]) -> None:
        """Take what each pod of a placement would hold."""
        for place in places:
            self.hold(Held(place.node_index, place.gpu_mask, place.resources, place.exclusive))

    def release(self, held: Held) -> None:
        self.table.release(held)
        self._done.append((self.table.hold, held))

    def claim(self, held: Held) -> None:
        self.table.claim(held)
        self._done.append((self.table.unclaim, held))

    def unclaim(self, held: Held) -> None:
        self.table.unclaim(held)
        self._done.append((self.table.claim, held))

    def roll_back(self, mark: int) -> None:
        """Undo every edit since the mark."""
        while len(self._done) > mark:
            undo, held = self._done.pop()
            undo(held)
