"""NCCL's topology file (XML) -> the inside of a node type.

The file comes from outside, so a document type, entities and deep or huge trees are refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from scheduler.importers.node_inside import (
    LINK_GBPS,
    LINK_GBPS_BY_SM,
    Inside,
    inventory_of_inside,
)
from scheduler.importers.options import DEFAULTS, Options
from scheduler.importers.refusals import refuse
from scheduler.importers.yaml_text import decode
from scheduler.model.node import Inventory

ROOT = "system"
GPU_CLASSES = ("0x0302", "0x0300", "0x1200")
"""PCI classes of GPUs: 3D controller, display controller, processing accelerator."""

NIC_CLASSES = ("0x0200", "0x0207")
"""PCI classes of NICs: Ethernet and InfiniBand."""

SWITCH_LINK_CLASS = "0x068000"
"""Class of an NVSwitch as the target of an NVLink."""

DEPTH_MAX = 32
ELEMENTS_MAX = 20_000
"""A node has some hundred parts."""

_MAX_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class _Element:
    tag: str
    attributes: Mapping[str, str]
    line: int
    parent: "_Element | None"
    children: "list[_Element]" = field(default_factory=list)

    def walk(self) -> "Iterator[_Element]":
        """The element itself and all below it, in the order of the file."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack += reversed(element.children)

    def way_up(self) -> "list[_Element]":
        """The elements around this one, outermost first."""
        way: list[_Element] = []
        at = self.parent
        while at is not None:
            way.append(at)
            at = at.parent
        return way[::-1]


def parse(text: str | bytes, options: Options = DEFAULTS) -> Inventory:
    """The inventory of the node type that a file shows; `options.node_type` tells the rest of it.

    Raises:
        InventoryError: If it is no XML, declares entities, is no topology, or shows no GPU.
    """
    options.check()
    root = _read(decode(text, max_bytes=_MAX_BYTES))
    if root.tag != ROOT:
        message = f"the root is <{root.tag[:40]}>; a topology has <{ROOT}>"
        raise refuse("", message, line=root.line)
    devices = [e for e in root.walk() if e.tag == "pci"]
    unclassed = [e for e in devices if "class" not in e.attributes and not e.children]
    gpus = sorted((e for e in devices if _is_gpu(e)), key=_gpu_order)
    if not gpus:
        line = unclassed[0].line if unclassed else root.line
        why = "devices have no class, so GPUs cannot be told from NICs" if unclassed else "no GPU"
        raise refuse("class", why, line=line)
    nics = sorted((e for e in root.walk() if _is_nic(e)), key=_bus)
    inside = Inside(
        distances=[[_distance(gpu, nic) for nic in nics] for gpu in gpus],
        links=[sum(_links(gpu).values()) for gpu in gpus],
        is_full=_is_full(gpus),
        link_gbps=_link_gbps(gpus[0]),
        nic_gbps=min((_nic_gbps(nic) for nic in nics), default=0.0),
    )
    return inventory_of_inside(inside, options, "NCCL topology file")


def _read(text: str) -> _Element:
    parser = expat.ParserCreate()
    open_elements: list[_Element] = []
    roots: list[_Element] = []
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > ELEMENTS_MAX or len(open_elements) >= DEPTH_MAX:
            message = f"more than {ELEMENTS_MAX} elements or {DEPTH_MAX} inside one another"
            raise refuse("", message, line=parser.CurrentLineNumber)
        parent = open_elements[-1] if open_elements else None
        element = _Element(tag, attributes, parser.CurrentLineNumber, parent)
        (parent.children if parent else roots).append(element)
        open_elements.append(element)

    def end(tag: str) -> None:
        open_elements.pop()

    def forbidden(*_: object) -> NoReturn:
        message = "a document type or entity is not allowed"
        raise refuse("", message, line=parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = forbidden
    parser.EntityDeclHandler = forbidden
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        message = f"not XML: {expat.ErrorString(error.code)}"
        raise refuse("", message, line=error.lineno) from error
    return roots[0]


def _is_gpu(device: _Element) -> bool:
    return device.attributes.get("class", "").startswith(GPU_CLASSES)


def _is_nic(element: _Element) -> bool:
    """A PCI device that is a NIC, or a bare `nic` that hangs on a CPU."""
    if element.tag == "nic":
        return element.parent is not None and element.parent.tag != "pci"
    return element.tag == "pci" and element.attributes.get("class", "").startswith(NIC_CLASSES)


def _inner(device: _Element) -> _Element | None:
    """What NCCL itself says of a GPU."""
    return next((child for child in device.children if child.tag == "gpu"), None)


def _gpu_order(device: _Element) -> tuple[int, str]:
    """The order of the driver's indices: NCCL's own number, else that of the bus."""
    inner = _inner(device)
    number = inner.attributes.get("dev", "") if inner else ""
    known = number.isascii() and number.isdigit() and len(number) < 6
    return (int(number) if known else -1, _bus(device))


def _bus(device: _Element) -> str:
    return device.attributes.get("busid", "").lower().rjust(20)


def _distance(gpu: _Element, nic: _Element) -> int:
    """The less the two have in common on the way down to them, the farther."""
    shared = 0
    for a, b in zip(gpu.way_up(), nic.way_up(), strict=False):
        if a is not b:
            break
        shared += 1
    return DEPTH_MAX - shared


def _links(gpu: _Element) -> dict[str, int]:
    """NVLinks by target; one to the GPU itself, as in some files, leads nowhere."""
    inner = _inner(gpu)
    own = gpu.attributes.get("busid", "").lower()
    links: dict[str, int] = {}
    for child in inner.children if inner else ():
        count = child.attributes.get("count", "1")
        if child.tag == "nvlink" and count.isascii() and count.isdigit() and len(count) < 4:
            target = child.attributes.get("target", "").lower()
            if child.attributes.get("tclass") == SWITCH_LINK_CLASS:
                target = SWITCH_LINK_CLASS
            if target != own:
                links[target] = links.get(target, 0) + int(count)
    return links


def _is_full(gpus: list[_Element]) -> bool:
    """Whether all have a link to each other or to switches."""
    buses = [gpu.attributes.get("busid", "").lower() for gpu in gpus]
    return all(
        SWITCH_LINK_CLASS in links or set(buses) - {bus} <= links.keys()
        for bus, links in ((bus, _links(gpu)) for bus, gpu in zip(buses, gpus, strict=True))
    )


def _link_gbps(gpu: _Element) -> float:
    inner = _inner(gpu)
    return LINK_GBPS_BY_SM.get(inner.attributes.get("sm", "") if inner else "", LINK_GBPS)


def _nic_gbps(nic: _Element) -> float:
    """The sum of its ports, which are told in Mbit/s; 0 where they are not told."""
    total = 0
    for element in nic.walk():
        speed = element.attributes.get("speed", "")
        if element.tag == "net" and speed.isascii() and speed.isdigit() and len(speed) < 9:
            total += int(speed)
    return total / 1000
