"""A SHARP switch map (Slurm's syntax, GUIDs for nodes, cables both ways) -> Inventory.

Each line names the switches beside a switch, those above it too, so it is a graph and no tree.
Rails and levels are found as in any other fabric.
"""

from collections.abc import Mapping

from scheduler.importers.fabric_inventory import inventory_of_fabric
from scheduler.importers.ibnetdiscover import SPEED_DEFAULT_GBPS
from scheduler.importers.options import DEFAULTS, Options, check_places
from scheduler.importers.refusals import Refusals, refuse
from scheduler.importers.slurm_lines import Entry, entries
from scheduler.importers.yaml_text import decode
from scheduler.model.node import Inventory
from scheduler.topology.fabric import Nic, Trunk, assemble

SWITCH_KIND = "switchname"


def parse(
    text: str | bytes, options: Options = DEFAULTS, *, hosts: Mapping[int, str] | None = None
) -> Inventory:
    """The inventory that a map and a table of adapters describe.

    Args:
        hosts: Port GUID -> host.

    Raises:
        InventoryError: If a line is wrong, a switch is unknown, or no adapter belongs to a host.
    """
    options.check()
    refusals = Refusals()
    switches: dict[str, Entry] = {}
    for entry in entries(decode(text), refusals):
        if entry.kind != SWITCH_KIND:
            refusals.add(entry.keys[entry.kind][:60], "expected SwitchName", line=entry.line)
        elif entry.name in switches:
            refusals.add("SwitchName", f"switch '{entry.name}' comes twice", line=entry.line)
        else:
            check_places([entry.name], "SwitchName", refusals, line=entry.line)
            switches[entry.name] = entry
    if not switches and not refusals:
        raise refuse("", "no line begins with SwitchName: no map of switches")
    pairs = {pair for entry in switches.values() for pair in _pairs(entry, switches, refusals)}
    nics: list[Nic] = []
    strange: list[str] = []
    for entry in switches.values():
        for guid in _parts(entry, "nodes"):
            host = (hosts or {}).get(_number(guid, entry, refusals), "")
            if host:
                nics.append(Nic(host, f"hca-{guid}", entry.name, SPEED_DEFAULT_GBPS))
            else:
                strange.append(guid)
    refusals.raise_if_any()
    warnings = [f"{len(strange)} adapters of no known host: left out"] if strange else []
    trunks = [Trunk(a, b, (SPEED_DEFAULT_GBPS,)) for a, b in sorted(pairs)]
    return inventory_of_fabric(assemble(nics, trunks, switches=switches), options, warnings)


def _parts(entry: Entry, key: str) -> list[str]:
    return [part for part in (p.strip() for p in entry.get(key).split(",")) if part]


def _pairs(
    entry: Entry, switches: Mapping[str, Entry], refusals: Refusals
) -> list[tuple[str, str]]:
    """The switch with each one beside it, in the order of names."""
    found: list[tuple[str, str]] = []
    for other in _parts(entry, "switches"):
        if other not in switches:
            message = f"'{other[:60]}' is no switch of this map"
            refusals.add("Switches", message, line=entry.line)
        elif other != entry.name:
            found.append((min(entry.name, other), max(entry.name, other)))
    return found


def _number(guid: str, entry: Entry, refusals: Refusals) -> int:
    try:
        return int(guid[:20], 16)
    except ValueError:
        refusals.add("Nodes", f"'{guid[:40]}' is no GUID", line=entry.line)
        return -1
