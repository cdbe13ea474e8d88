"""Dumps of `ibnetdiscover` -> Inventory."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.importers.fabric_inventory import inventory_of_fabric
from scheduler.importers.fields import name_problem, place_problem
from scheduler.importers.ib_dump import Device, Devices, cables, end_number, ends, read_devices
from scheduler.importers.options import DEFAULTS, Options
from scheduler.importers.refusals import refuse
from scheduler.importers.yaml_text import decode
from scheduler.model.node import Inventory
from scheduler.topology.fabric import Fabric, Nic, Trunk, assemble
from scheduler.topology.natural import natural_key
from scheduler.topology.places import listed

MAX_BYTES = 64 * 1024 * 1024
"""A dump of 100,000 adapters and all cables between their switches."""

NICS_PER_NODE_MAX = 128
"""Ports of one host; more are several hosts of one name."""

NO_NAMES = frozenset(("localhost", "localhost.localdomain", "ubuntu", "(none)", "linux"))
"""What a host calls itself before it has a name."""

SPEED_DEFAULT_GBPS = 100.0
"""For a link of which the dump does not tell the speed."""

CUT_OFF_SHARE = 0.1
"""Part of all devices that may lack a record of their own; with more, the dump was cut off."""

CUT_OFF_MIN = 4
"""So many devices without a record are no sign yet."""

_AGGREGATION = "Aggregation Node"
"""Part of the description of the SHARP port of a switch, which is no host."""

_ADAPTER = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\d[A-Za-z0-9_-]*")
_PRODUCT = re.compile(r"MT\d+$")
_PREFIX = re.compile(r"^MF\d;")


@dataclass(frozen=True, slots=True)
class ReadFabric:
    """A fabric and what was left out of it."""

    fabric: Fabric
    warnings: tuple[str, ...]


def parse(
    text: str | bytes, options: Options = DEFAULTS, *, hosts: Mapping[int, str] | None = None
) -> Inventory:
    """The inventory that a dump of either spelling describes.

    Args:
        hosts: Port GUID -> host, where the adapters' descriptions do not name the hosts.

    Raises:
        InventoryError: If the dump cannot be read, was cut off, or links no host to a switch.
    """
    options.check()
    found = read_fabric(text, hosts)
    return inventory_of_fabric(found.fabric, options, found.warnings)


def read_fabric(text: str | bytes, hosts: Mapping[int, str] | None = None) -> ReadFabric:
    """The fabric of a dump; arguments and errors as for `parse`."""
    devices = read_devices(decode(text, max_bytes=MAX_BYTES))
    warnings: list[str] = []
    other = ends(devices)
    _check_whole(devices, other, warnings)
    names = _switch_names(devices)
    owners = _owners(devices, hosts or {}, warnings)
    nics: list[Nic] = []
    trunks: dict[tuple[int, int], list[float]] = defaultdict(list)
    no_speed = 0
    port_counts = _port_counts(devices)
    for near, link, far in cables(devices, other):
        no_speed += not link.gbps
        gbps = link.gbps or SPEED_DEFAULT_GBPS
        if near.is_switch and far.is_switch:
            low, high = sorted((near.guid, far.guid))
            if low != high and low in names and high in names:
                trunks[low, high].append(gbps)
            continue
        switch, adapter = (near, far) if near.is_switch else (far, near)
        owner = owners.get(adapter.guid)
        if owner is not None and switch.guid in names and not adapter.is_switch:
            port = link.peer_port if adapter is far else link.port
            several = port_counts[adapter.guid] > 1
            name = f"{owner[1]}/p{port}" if several else owner[1]
            nics.append(Nic(owner[0], name, names[switch.guid], gbps))
    if no_speed:
        warnings.append(f"{no_speed} links without a speed; taken as {SPEED_DEFAULT_GBPS:g} Gbit/s")
    nics = _of_sane_hosts(nics, warnings)
    fabric = assemble(
        nics,
        [Trunk(names[a], names[b], tuple(gbps)) for (a, b), gbps in trunks.items()],
        switches=names.values(),
    )
    return ReadFabric(fabric, tuple(warnings))


def _check_whole(devices: Devices, other: Mapping[int, int], warnings: list[str]) -> None:
    """Warn of links to devices without a record; refuse a dump that lacks many."""
    missing = [d for d in devices.values() if not d.line and not _is_aggregation(d)]
    ports = any(device.dead_ports for device in devices.values())
    if len(missing) >= CUT_OFF_MIN and len(missing) > CUT_OFF_SHARE * len(devices) and not ports:
        raise refuse(
            "",
            f"{len(missing)} of {len(devices)} devices are named by others and have no record of "
            f"their own, such as {_shown(missing[0])}: the dump is cut off",
        )
    switches = [_shown(d) for d in missing if d.is_switch]
    if switches:
        warnings.append(f"links to nowhere: {', '.join(switches[:8])} without a record; left out")
    dead = [(d, port) for d in devices.values() for port in d.dead_ports]
    if dead:
        shown = ", ".join(f"port {port} of {_shown(device)}" for device, port in dead[:8])
        warnings.append(f"{len(dead)} ports without a working link: {shown}")
    one_sided = [
        f"port {link.port} of {_shown(device)} (line {link.line})"
        for device in devices.values()
        for link in device.links
        if devices[link.peer].line
        and other.get(end_number(link.peer, link.peer_port)) != end_number(device.guid, link.port)
    ]
    if one_sided:
        warnings.append(f"{len(one_sided)} links that only one end reports: {one_sided[0]} ...")


def _is_aggregation(device: Device) -> bool:
    return not device.is_switch and _AGGREGATION in device.name


def _shown(device: Device) -> str:
    return f"'{device.name[:60]}' ({'S' if device.is_switch else 'H'}-{device.guid:016x})"


def _switch_names(devices: Devices) -> dict[int, str]:
    """A name for each switch with a record: its own if no other has it, else its GUID."""
    wanted = {
        guid: _plain_switch_name(device.name)
        for guid, device in devices.items()
        if device.is_switch and device.line
    }
    counts: dict[str, int] = defaultdict(int)
    for name in wanted.values():
        counts[name] += 1
    return {
        guid: name if counts[name] == 1 and not place_problem(name) else f"S-{guid:016x}"
        for guid, name in wanted.items()
    }


def _plain_switch_name(description: str) -> str:
    """`MF0;leaf-01:MQM9701/U1` -> `leaf-01`; of a director, `MF0;d1:CS8500/L02/U1` -> `d1/L02`."""
    base, _, model = _PREFIX.sub("", description).partition(":")
    boards = [part for part in model.split("/")[1:] if part != "U1"]
    return "/".join([base.strip(), *boards])


def _owners(
    devices: Devices, hosts: Mapping[int, str], warnings: list[str]
) -> dict[int, tuple[str, str]]:
    """Host and adapter name of each adapter that tells them."""
    owners: dict[int, tuple[str, str]] = {}
    nameless: list[Device] = []
    unnamed_hosts: dict[str, int] = defaultdict(int)
    taken: dict[tuple[str, str], list[int]] = defaultdict(list)
    for guid, device in devices.items():
        if device.is_switch or _is_aggregation(device):
            continue
        owner = _owner(device, hosts)
        if owner is None:
            nameless.append(device)
        elif owner[0].lower() in NO_NAMES and guid not in hosts:
            unnamed_hosts[owner[0]] += 1
        else:
            owners[guid] = owner
            taken[owner].append(guid)
    if nameless:
        warnings.append(
            f"{len(nameless)} adapters do not name their host and were left out: "
            f"{', '.join(_shown(device) for device in nameless[:3])} ..."
        )
    for name, count in sorted(unnamed_hosts.items()):
        warnings.append(f"{count} adapters of hosts that call themselves '{name}': left out")
    doubled = sorted({o[0] for o, guids in taken.items() if len(guids) > 1}, key=natural_key)
    if doubled:
        warnings.append(f"{listed('host', doubled)} with two adapters of one name: left out")
    left_out = set(doubled)
    return {guid: owner for guid, owner in owners.items() if owner[0] not in left_out}


def _owner(device: Device, hosts: Mapping[int, str]) -> tuple[str, str] | None:
    words = device.name.split()
    named = len(words) == 2 and _ADAPTER.fullmatch(words[1]) and not _PRODUCT.match(words[0])
    adapter = words[1] if named else f"hca-{device.guid:016x}"
    if device.guid in hosts:
        return hosts[device.guid], adapter
    if (named or len(words) == 1) and name_problem(words[0]) is None:
        return words[0], adapter
    return None


def _port_counts(devices: Devices) -> dict[int, int]:
    """Linked ports of each adapter, whichever end tells of them."""
    ports: dict[int, set[int]] = defaultdict(set)
    for device in devices.values():
        if not device.is_switch:
            ports[device.guid].update(link.port for link in device.links)
            continue
        for link in device.links:
            if not devices[link.peer].is_switch:
                ports[link.peer].add(link.peer_port)
    return {guid: len(found) for guid, found in ports.items()}


def _of_sane_hosts(nics: list[Nic], warnings: list[str]) -> list[Nic]:
    counts: dict[str, int] = defaultdict(int)
    for nic in nics:
        counts[nic.node] += 1
    crowded = sorted((n for n, c in counts.items() if c > NICS_PER_NODE_MAX), key=natural_key)
    if crowded:
        most = max(counts.values())
        warnings.append(
            f"{listed('host', crowded)} with {most} ports, more than {NICS_PER_NODE_MAX}: several "
            f"hosts of one name? left out"
        )
    left_out = set(crowded)
    return [nic for nic in nics if nic.node not in left_out]
