"""The kinds of objects there are, and the words for them."""

from dataclasses import dataclass

import typer


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object.

    Attributes:
        name: In the singular, as in `-o name`.
        plural: As in headings and messages.
        short: Abbreviations, as kubectl has them.
        namespaced: Whether its names are unique in a namespace only.
    """

    name: str
    plural: str
    short: tuple[str, ...] = ()
    namespaced: bool = False


JOB = Kind("job", "jobs", namespaced=True)
POD = Kind("pod", "pods", ("po",), namespaced=True)
NODE = Kind("node", "nodes", ("no",))
RACK = Kind("rack", "racks")
DOMAIN = Kind("domain", "domains", ("dom",))
QUEUE = Kind("queue", "queues", ("q",))
CLAIM = Kind("claim", "claims")
RESERVATION = Kind("reservation", "reservations", ("res",))
DELIVERY = Kind("delivery", "deliveries")
EVENT = Kind("event", "events", ("ev",))
INVENTORY = Kind("inventory", "inventory", ("inv",))

KINDS = (JOB, POD, NODE, RACK, DOMAIN, QUEUE, RESERVATION, CLAIM, DELIVERY, EVENT, INVENTORY)
_BY_WORD = {word: kind for kind in KINDS for word in (kind.name, kind.plural, *kind.short)}


def kind_of(word: str, allowed: tuple[Kind, ...] = KINDS) -> Kind:
    """The kind that a word stands for.

    Raises:
        typer.BadParameter: If it stands for none of those allowed.
    """
    kind = _BY_WORD.get(word.lower())
    if kind is None or kind not in allowed:
        words = ", ".join(
            f"{kind.plural} ({', '.join(kind.short)})" if kind.short else kind.plural
            for kind in allowed
        )
        raise typer.BadParameter(f"'{word}' is no kind of object here; there are {words}")
    return kind


def split_things(things: list[str], allowed: tuple[Kind, ...]) -> tuple[Kind, list[str]]:
    """Kind and names of `KIND [NAME...]`, or of `KIND/NAME...`, all of one kind.

    Raises:
        typer.BadParameter: If there is no kind, or more than one.
    """
    first, *names = things
    if "/" not in first:
        return kind_of(first, allowed), names
    kinds = [kind_of(thing.partition("/")[0], allowed) for thing in things]
    if any(kind is not kinds[0] for kind in kinds):
        raise typer.BadParameter("name things of one kind at a time")
    return kinds[0], [thing.partition("/")[2] for thing in things]
