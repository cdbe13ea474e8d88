"""Which host has which adapter, for fabrics whose adapters do not name their hosts."""

import re

from scheduler.importers.fields import name_problem
from scheduler.importers.refusals import Refusals
from scheduler.importers.yaml_text import decode

_PAIR = re.compile(r"(\S+):\s+(?:0x)?([0-9a-fA-F]{1,16})$")
_HOST = re.compile(r"VM_hostname\s+(\S+)$")
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})$")


def read_hosts(text: str | bytes) -> dict[int, str]:
    """Port GUID -> host, of lines `host: guid`, or of `VM_hostname HOST` with GUIDs below.

    GUIDs are numbers here: tools write them with and without leading zeros.

    Raises:
        InventoryError: If a line is neither, or a GUID belongs to two hosts.
    """
    hosts: dict[int, str] = {}
    refusals = Refusals()
    current = ""
    for number, raw in enumerate(decode(text).splitlines(), 1):
        line = raw.strip()
        if not line or line[0] == "#":
            continue
        heading = _HOST.match(line)
        if heading:
            current = heading[1]
            continue
        pair, bare = _PAIR.match(line), _GUID.match(line)
        host = pair[1] if pair else current
        guid = pair[2] if pair else bare[1] if bare else ""
        if not guid or not host:
            refusals.add("", f"expected `host: guid`, found '{line[:60]}'", line=number)
            continue
        problem = name_problem(host)
        if problem is not None:
            refusals.add("host", problem, line=number)
        before = hosts.setdefault(int(guid, 16), host)
        if before != host:
            message = f"adapter {guid} is in '{before}' and '{host}'; it is in one"
            refusals.add("guid", message, line=number)
    refusals.raise_if_any()
    return hosts
