"""The two spellings of an `ibnetdiscover` dump -> devices and the links they report.

The long one has a record per device (`Switch 65 "S-..."` and a line per port), the one of `--ports`
a line per link. GUIDs are compared as numbers: tools drop leading zeros in some places only.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.importers.refusals import Refusals, refuse

LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
"""Nominal Gbit/s of one lane, one way (InfiniBand Trade Association, link speed names)."""

DEVICES_MAX = 1_000_000
"""Devices of one dump."""

LINE_LENGTH_MAX = 2_000
"""Characters of a line; a description has at most 64."""

_PORT_BITS = 20
"""More than any port's number needs."""

_RECORD = re.compile(r'(Switch|Ca|Rt)\s+(\d{1,5})\s+"([SHR])-([0-9a-fA-F]{1,16})"\s*(?:#(.*))?$')
_PORT = re.compile(
    r"\[(\d{1,5})\](?:\[ext \d+\])?(?:\([0-9a-fA-F]{1,16}\))?\s+"
    r'"([SHR])-([0-9a-fA-F]{1,16})"\[(\d{1,5})\](?:\[ext \d+\])?(?:\([0-9a-fA-F]{1,16}\))?'
    r"\s*(?:#(.*))?$"
)
_ATTRIBUTE = re.compile(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid|DR path)\b")
_CHASSIS = re.compile(r"Chassis\b|\(.*\)$")
_SPEED = re.compile(r"\b(\d{1,2})x([A-Z]+\d*)\b")
_SPEEDS = {f"{width}x{n}": width * gbps for width in (1, 2, 4) for n, gbps in LANE_GBPS.items()}
_QUOTED = re.compile(r'"([^"]*)"')

_PORTS_HEAD = re.compile(
    r"(CA|SW|RT)\s+(\d{1,6})\s+(\d{1,5})\s+0x([0-9a-fA-F]{1,16})\s+(\d{1,2})x\s+(\S+)"
)
_PORTS_PEER = re.compile(
    r"-\s+(CA|SW|RT)\s+(\d{1,6})\s+(\d{1,5})\s+0x([0-9a-fA-F]{1,16})\s+"
    r"\(\s*'(.*)'\s+-\s+'(.*)'\s*\)$"
)


class Link(NamedTuple):
    """One end of a cable; a tuple, for a dump has half a million.

    Attributes:
        gbps: 0 where the dump does not say.
    """

    port: int
    peer: int
    peer_port: int
    gbps: float
    line: int


@dataclass(slots=True)
class Device:
    """A switch or an adapter.

    Attributes:
        name: Its description, as the dump has it.
        line: Where its record starts; 0 if only others name it.
        dead_ports: Ports with something plugged in that is not a working link.
    """

    guid: int
    is_switch: bool
    name: str = ""
    line: int = 0
    links: list[Link] = field(default_factory=list)
    dead_ports: list[int] = field(default_factory=list)


Devices = dict[int, Device]


def read_devices(text: str) -> Devices:
    """The devices of a dump, by GUID, in the order found.

    Raises:
        InventoryError: If a line is of neither spelling, a device comes twice, or the dump is cut
            off.
    """
    devices: Devices = {}
    refusals = Refusals()
    lines = [
        (number, line)
        for number, raw in enumerate(text.splitlines(), 1)
        if (line := raw.strip()) and line[0] != "#"
    ]
    number, longest = max(lines, key=lambda found: len(found[1]), default=(0, ""))
    if len(longest) > LINE_LENGTH_MAX:
        message = f"has {len(longest)} characters; at most {LINE_LENGTH_MAX} are allowed"
        raise refuse("", message, line=number)
    if not lines:
        raise refuse("", "the dump is empty; `ibnetdiscover` prints a record for every device")
    if _PORTS_HEAD.match(lines[0][1]):
        _read_ports(lines, devices, refusals)
    else:
        _read_records(lines, devices, refusals)
    refusals.raise_if_any()
    return devices


def _read_records(lines: list[tuple[int, str]], devices: Devices, refusals: Refusals) -> None:
    current: Device | None = None
    for number, line in lines:
        port = _PORT.match(line) if line[0] == "[" else None
        record = _RECORD.match(line) if port is None and line[0] in "SCR" else None
        if port is not None and current is not None:
            current.links.append(_link(port, number))
            _describe_peer(devices, port)
        elif record is not None:
            current = _start(record, number, devices, refusals)
        elif port is not None:
            refusals.add("", "a port before the first device", line=number)
        elif not (_ATTRIBUTE.match(line) or _CHASSIS.match(line)):
            shown = line if len(line) <= 60 else line[:57] + "..."
            last = " (the last line: is the dump cut off?)" if number == lines[-1][0] else ""
            refusals.add("", f"expected a device or a port, found '{shown}'{last}", line=number)
    if current is not None and not current.links:
        message = f"device '{current.name}' has no ports and the dump ends here: it is cut off"
        refusals.add("", message, line=current.line)
    elif current is None and not refusals:
        refusals.add("", "no device: a record starts with Switch, Ca or Rt", line=lines[-1][0])


def _start(record: re.Match[str], line: int, devices: Devices, refusals: Refusals) -> Device:
    guid = int(record[4], 16)
    device = devices.setdefault(guid, Device(guid, record[3] == "S"))
    if device.line:
        message = f"device {record[3]}-{record[4]} comes twice; the first is on line {device.line}"
        refusals.add("", message, line=line)
    if len(devices) > DEVICES_MAX:
        raise refuse("", f"more than {DEVICES_MAX} devices", line=line)
    device.line, device.is_switch = line, record[3] == "S"
    device.name = _quoted(record[5]) or device.name
    return device


def _link(port: re.Match[str], line: int) -> Link:
    number, _, peer, peer_port, comment = port.groups("")
    return Link(int(number), int(peer, 16), int(peer_port), _gbps(comment), line)


def _gbps(comment: str) -> float:
    """The speed that a port's line ends in; 0 where there is none."""
    last = comment[comment.rfind(" ") + 1 :]
    known = _SPEEDS.get(last)
    if known is not None:
        return known
    speed = _SPEED.search(comment)
    return int(speed[1]) * LANE_GBPS.get(speed[2], 0.0) if speed else 0.0


def _describe_peer(devices: Devices, port: re.Match[str]) -> None:
    """Keep what a port's line says of the other end, which may have no record of its own."""
    guid = int(port[3], 16)
    peer = devices.get(guid)
    if peer is None:
        devices[guid] = Device(guid, port[2] == "S", _quoted(port[5]))
    elif not peer.name:
        peer.name = _quoted(port[5])


def _quoted(comment: str | None) -> str:
    found = _QUOTED.search(comment or "")
    return found[1].strip() if found else ""


def _read_ports(lines: list[tuple[int, str]], devices: Devices, refusals: Refusals) -> None:
    for number, line in lines:
        head = _PORTS_HEAD.match(line)
        if head is None:
            shown = line if len(line) <= 60 else line[:57] + "..."
            refusals.add(
                "", f"expected a line of `ibnetdiscover --ports`, found '{shown}'", line=number
            )
            continue
        rest = line[head.end() :].strip()
        peer = _PORTS_PEER.match(rest)
        if rest.startswith("-") and peer is None:
            refusals.add(
                "", f"the other end of the link cannot be read: '{rest[:60]}'", line=number
            )
            continue
        guid = int(head[4], 16)
        device = devices.setdefault(guid, Device(guid, head[1] == "SW"))
        device.line = device.line or number
        if peer is None:
            device.name = device.name or rest.strip("'").strip()
            device.dead_ports.append(int(head[3]))
            continue
        gbps = int(head[5]) * LANE_GBPS.get(head[6], 0.0)
        other = int(peer[4], 16)
        device.name = device.name or peer[5].strip()
        device.links.append(Link(int(head[3]), other, int(peer[3]), gbps, number))
        known = devices.setdefault(other, Device(other, peer[1] == "SW"))
        known.name = known.name or peer[6].strip()
        # A line tells both ends, so the other one needs no line of its own.
        known.line = known.line or number


def ends(devices: Devices) -> dict[int, int]:
    """For each end of a cable, as one number, the end that it reports."""
    return {
        end_number(device.guid, link.port): end_number(link.peer, link.peer_port)
        for device in devices.values()
        for link in device.links
    }


def end_number(guid: int, port: int) -> int:
    return guid << _PORT_BITS | port


def cables(devices: Devices, other: Mapping[int, int]) -> Iterator[tuple[Device, Link, Device]]:
    """Each cable once: from the end with the lower GUID, unless only the other one reports it.

    Args:
        other: The `ends` of these devices.
    """
    for device in devices.values():
        for link in device.links:
            near = end_number(device.guid, link.port)
            far = end_number(link.peer, link.peer_port)
            if near < far or other.get(far) != near:
                yield device, link, devices[link.peer]
