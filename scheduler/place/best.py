"""The same pods on one node type or another: the best of them, or the nearest verdict."""

from collections.abc import Iterable

from scheduler.cluster.trial import Trial
from scheduler.model.job import Rule
from scheduler.model.placement import NoFit
from scheduler.place.arrange import Arranged, arrange
from scheduler.place.clean import prefer_clean
from scheduler.place.layout import measure_of
from scheduler.place.uniform import Ask, Settled, required_wants, settle
from scheduler.place.verdict import missing_level, shortfall


def best_of(trial: Trial, asks: Iterable[Ask]) -> Arranged | NoFit | None:
    """The layout that places the most pods, then keeps the most preferences, then is fastest.

    Of each node type the nodes are chosen that cost least, before types are compared.

    Args:
        trial: That of the asks' views.
        asks: One for each node type that could hold the pods.

    Returns:
        None when there was no ask; when none could be placed, the verdict of which most pods fit.
    """
    found: list[tuple[Ask, Settled]] = []
    verdict: NoFit | None = None
    for ask in asks:
        wants = required_wants(ask)
        if isinstance(wants, Rule):
            return missing_level(wants, ask.view.topology.level_names)
        settled = settle(ask, wants)
        if settled is None:
            nearest = shortfall(ask, wants)
            verdict = nearest if verdict is None or nearest.fitting > verdict.fitting else verdict
        else:
            found.append((ask, settled))
    if not found:
        return verdict
    if len(found) == 1:
        return prefer_clean(trial, arrange(*found[0]))
    return min((prefer_clean(trial, arrange(*one)) for one in found), key=_worth)


def _worth(one: Arranged) -> tuple[object, ...]:
    kind, nodes = one.ask.node_type, one.layout.nodes
    seconds = one.ask.seconds(nodes, one.layout.masks) if len(nodes) > 1 else 0.0
    return (
        one.ask.units.pods - len(nodes),
        measure_of(one.ask, len(nodes), across_types=True).of(one.ask, nodes),
        seconds,
        "" if kind is None else kind.name,
    )
