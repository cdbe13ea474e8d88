"""The same pods on one node type or another: the best of them, or the nearest verdict."""

from collections.abc import Iterable

from scheduler.model.job import Rule
from scheduler.model.placement import NoFit
from scheduler.place.uniform import Ask, Settled, required_wants, settle
from scheduler.place.verdict import missing_level, shortfall


def best_of(asks: Iterable[Ask]) -> tuple[Ask, Settled] | NoFit | None:
    """The ask that places the most of its pods, then keeps the most preferences, then by type name.

    Args:
        asks: One for each node type that could hold the pods.

    Returns:
        None when there was no ask; when none could be placed, the verdict of which most pods fit.
    """
    best: tuple[tuple[int, tuple[bool, ...], str], Ask, Settled] | None = None
    verdict: NoFit | None = None
    for ask in asks:
        wants = required_wants(ask)
        if isinstance(wants, Rule):
            return missing_level(wants, ask.view.topology.level_names)
        settled = settle(ask, wants)
        if settled is None:
            found = shortfall(ask, wants)
            verdict = found if verdict is None or found.fitting > verdict.fitting else verdict
            continue
        name = "" if ask.node_type is None else ask.node_type.name
        key = (ask.units.pods - settled.pods, settled.unmet, name)
        if best is None or key < best[0]:
            best = (key, ask, settled)
    return verdict if best is None else best[1:]
