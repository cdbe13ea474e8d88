"""Text of any format that describes a cluster -> Inventory, and what of a cluster it tells."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from api.ingest.asked import (
    NOTHING_ASKED,
    PODYARD,
    USED,
    Asked,
    KnownType,
    check_used,
    labels_of,
    options_of,
    pairs,
)
from scheduler.errors import InventoryError, Problem
from scheduler.importers import (
    csv_hosts,
    ibnetdiscover,
    k8s_nodes,
    podyard_yaml,
    sharp_map,
    slurm_yaml,
)
from scheduler.importers.coverage import WHOLE, Coverage
from scheduler.importers.detect import FORMATS, possible_formats
from scheduler.importers.guid_hosts import read_hosts
from scheduler.importers.machines import UNKNOWN_TYPE
from scheduler.importers.options import DEFAULTS, Options
from scheduler.model.node import Inventory

SHARP = "sharp"
"""Written in Slurm's syntax and yet no Slurm map, so it is read only where it is named."""

WHAT: Mapping[str, str] = {name: found.what for name, found in FORMATS.items()} | {
    SHARP: "a SHARP map of switches, with lines `host: 0xGUID` for its adapters"
}
"""What each format is, for a person who has to choose."""

ASKS_FOR_TYPE = "name a node type for them"
"""End of an importer's warning about nodes whose hardware a text does not tell. It is told of those
alone whose hardware is not known from elsewhere, so not here."""

GUESS_PROBLEMS_MAX = 10
"""Problems told of a text that may be of another format altogether."""

_NODE_LINE = re.compile(rb"^[ \t]{0,40}NodeName[ \t]{0,40}=", re.MULTILINE | re.IGNORECASE)
_HOST_LINE = re.compile(
    rb"^[ \t]{0,40}(?:[^\s:]{1,253}:[ \t]{1,40}0x[0-9A-Fa-f]{1,16}"
    rb"|VM_hostname[ \t]{1,40}\S{1,253}|(?:0x)?[0-9A-Fa-f]{1,16})[ \t\r]{0,40}$",
    re.MULTILINE,
)
"""Lines that `guid_hosts` reads; dumps of fabrics have none that look so."""


@dataclass(frozen=True, slots=True)
class Read:
    """A text that was read.

    Attributes:
        format: Named or guessed.
    """

    format: str
    inventory: Inventory
    coverage: Coverage = WHOLE


def read_inventory(
    text: bytes, asked: Asked = NOTHING_ASKED, known: KnownType = lambda _: None
) -> Read:
    """The inventory that a text describes.

    Raises:
        InventoryError: If there is no such format, it is not plain which one the text is of, an
            option is wrong, or the text is.
    """
    if asked.format and asked.format not in USED:
        message = f"found '{asked.format[:80]}'; formats that can be read are {', '.join(USED)}"
        raise InventoryError(Problem("format", message))
    name = asked.format or _guessed(text)
    if name:
        check_used(asked, name)
    if name in ("", PODYARD):
        return _read_podyard(text, is_guess=not name)
    read = _READERS.get(name, _read_plain)
    inventory = read(text, options_of(asked, known), replace(asked, format=name))
    told = tuple(w for w in inventory.warnings if not w.endswith(ASKS_FOR_TYPE))
    coverage = _coverage(name, text, inventory, asked)
    return Read(name, replace(inventory, warnings=told), coverage)


def _guessed(text: bytes) -> str:
    """The format that a text shows signs of; "" if it shows none.

    Signs of Podyard's own beside others count as Podyard's: its reader takes nothing that it does
    not know, so it cannot take another's text for its own.

    Raises:
        InventoryError: If it shows signs of several others.
    """
    found = possible_formats(text)
    if PODYARD in found:
        return PODYARD
    if len(found) > 1:
        raise InventoryError(_unclear("could be in several formats", found))
    return found[0] if found else ""


def _read_podyard(text: bytes, *, is_guess: bool) -> Read:
    try:
        return Read(PODYARD, podyard_yaml.parse(text))
    except InventoryError as error:
        if not is_guess:
            raise
        why = f"shows no sign of any format and was read as '{PODYARD}'"
        shown = error.problems[:GUESS_PROBLEMS_MAX]
        raise InventoryError((*shown, _unclear(why, list(WHAT)))) from None


def _unclear(why: str, candidates: list[str]) -> Problem:
    listed = "; ".join(f"{name}: {WHAT[name]}" for name in candidates)
    return Problem("format", f"the text {why}; name one of these: {listed}")


def _coverage(name: str, text: bytes, inventory: Inventory, asked: Asked) -> Coverage:
    untold = {
        kind.name
        for kind in inventory.node_types.values()
        if not kind.gpus and kind.name.startswith(UNKNOWN_TYPE)
    }
    return Coverage(
        whole=False,
        cluster=bool(asked.cluster) or inventory.cluster != DEFAULTS.cluster,
        levels=len(inventory.levels) > 1,
        labels=name == "kubernetes" or (name == "slurm" and bool(_NODE_LINE.search(text))),
        untold_types=frozenset(untold),
        asks_for_type=any(w.endswith(ASKS_FOR_TYPE) for w in inventory.warnings),
    )


def _read_plain(text: bytes, options: Options, asked: Asked) -> Inventory:
    return FORMATS[asked.format].parse(text, options)


def _read_slurm(text: bytes, options: Options, asked: Asked) -> Inventory:
    if asked.topology:
        return slurm_yaml.parse(text, options, topology=asked.topology)
    return _read_plain(text, options, asked)


def _read_kubernetes(text: bytes, options: Options, asked: Asked) -> Inventory:
    labels = labels_of(asked)
    return k8s_nodes.parse(
        text,
        options,
        label_levels=labels.levels,
        domain_labels=labels.domains,
        set_labels=labels.sets,
    )


def _read_csv(text: bytes, options: Options, asked: Asked) -> Inventory:
    columns = dict(pairs("columns", asked.columns)) or None
    return csv_hosts.parse(text, options, columns=columns)


def _read_ibnetdiscover(text: bytes, options: Options, asked: Asked) -> Inventory:
    hosts, dump = _without_hosts(text)
    return ibnetdiscover.parse(dump, options, hosts=hosts)


def _read_sharp(text: bytes, options: Options, asked: Asked) -> Inventory:
    hosts, sharp = _without_hosts(text)
    return sharp_map.parse(sharp, options, hosts=hosts)


def _without_hosts(text: bytes) -> tuple[dict[int, str] | None, bytes]:
    """Lines that name the adapters' hosts, and the text without them; lines keep their numbers."""
    if not _HOST_LINE.search(text):
        return None, text
    lines = text.split(b"\n")
    hosts = b"\n".join(line if _HOST_LINE.match(line) else b"" for line in lines)
    return read_hosts(hosts), _HOST_LINE.sub(b"", text)


_READERS: Mapping[str, Callable[[bytes, Options, Asked], Inventory]] = {
    "slurm": _read_slurm,
    "kubernetes": _read_kubernetes,
    "csv": _read_csv,
    "ibnetdiscover": _read_ibnetdiscover,
    SHARP: _read_sharp,
}
"""Readers that have options of their own."""
