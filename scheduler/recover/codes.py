"""Codes of faults and what each asks for: data, with its source.

Actions follow the immediate action of the vendor's catalogue: restart the application = restart the
job, reset the GPU = drain and reset, restart the machine = replace. For codes that are not a
vendor's the action is what keeps a training run alive: a machine that is gone is replaced now, one
that is about to fail is emptied first, a lost rail is a price.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model.standing import FaultAction

XID_SOURCE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
PAGES_SOURCE = "https://docs.nvidia.com/deploy/dynamic-page-retirement/visibility.html"
OWN = "Podyard"


@dataclass(frozen=True, slots=True)
class FaultCode:
    """A kind of fault.

    Attributes:
        words: What it is, for people.
        machine_gone: Nothing runs on the machine any more, so its pods need not be fenced.
        takes_rail: It is about one rail of the node, which the report names.
        deadline_s: Of the drain that it asks for; None = nobody is made to leave without a place.
        source: Where the action comes from.
    """

    name: str
    action: FaultAction
    words: str
    machine_gone: bool = False
    takes_rail: bool = False
    deadline_s: float | None = None
    source: str = OWN


_NOTE, _RESTART = FaultAction.NOTE, FaultAction.RESTART_JOB
_RESET, _REPLACE = FaultAction.DRAIN_RESET, FaultAction.REPLACE

DRAIN_S = 600.0
"""Seconds that a gang has to save on a node that is to be reset: it works, but not for long."""

_XIDS: tuple[tuple[int, FaultAction, str], ...] = (
    (8, _RESTART, "GPU stopped processing"),
    (11, _RESTART, "invalid or corrupted push buffer stream"),
    (13, _RESTART, "graphics engine exception"),
    (31, _RESTART, "GPU memory page fault"),
    (32, _RESTART, "invalid or corrupted push buffer stream"),
    (43, _RESTART, "GPU stopped processing"),
    (45, _RESTART, "preemptive clean-up after an earlier error"),
    (46, _RESET, "GPU stopped processing, reset needed"),
    (48, _RESET, "double-bit ECC error"),
    (61, _NOTE, "internal micro-controller breakpoint"),
    (62, _RESET, "internal micro-controller halt"),
    (63, _NOTE, "a memory page was retired or a row remapped"),
    (64, _RESET, "a memory page could not be retired or a row remapped"),
    (69, _RESTART, "graphics engine class error"),
    (74, _RESET, "NVLink error"),
    (79, _REPLACE, "GPU has fallen off the bus"),
    (92, _NOTE, "many single-bit ECC errors"),
    (94, _RESTART, "contained uncorrectable ECC error"),
    (95, _RESET, "uncontained uncorrectable ECC error"),
    (109, _RESET, "context switch timed out"),
    (110, _RESET, "security fault"),
    (119, _RESET, "GPU system processor timed out"),
    (120, _RESET, "GPU system processor error"),
    (136, _RESET, "link training failed"),
    (140, _RESET, "unrecovered ECC error"),
    (143, _RESET, "GPU could not be initialised"),
    (145, _RESET, "NVLink error, receiving side"),
    (149, _RESET, "NVLink error, network"),
)

_OTHERS = (
    FaultCode(
        "node_lost",
        _REPLACE,
        "the machine is gone",
        machine_gone=True,
    ),
    FaultCode("power", _REPLACE, "the machine lost its power", machine_gone=True),
    FaultCode("thermal", _RESET, "too hot", deadline_s=120.0),
    FaultCode("disk", _RESET, "a local disk fails", deadline_s=DRAIN_S),
    FaultCode("ecc_sbe", _NOTE, "single-bit ECC errors"),
    FaultCode("ecc_dbe", _RESET, "double-bit ECC error", deadline_s=DRAIN_S, source=PAGES_SOURCE),
    FaultCode("nvlink", _RESET, "an NVLink is down", deadline_s=DRAIN_S),
    FaultCode("nic_down", _NOTE, "a NIC is down", takes_rail=True),
    FaultCode("rail_down", _NOTE, "a rail is down", takes_rail=True),
    FaultCode("link_flap", _NOTE, "a link comes and goes", takes_rail=True),
    FaultCode("switch_down", _REPLACE, "the switch that joins these nodes is down"),
    FaultCode("check_failed", _RESET, "its agent's check of the node failed", deadline_s=DRAIN_S),
)

CODES: Mapping[str, FaultCode] = {
    **{
        f"xid_{number}": FaultCode(
            f"xid_{number}",
            action,
            f"Xid {number}: {words}",
            deadline_s=DRAIN_S if action is _RESET else None,
            source=XID_SOURCE,
        )
        for number, action, words in _XIDS
    },
    **{code.name: code for code in _OTHERS},
}
"""Every code that may be reported, by name."""


def code_of_xid(xid: int) -> FaultCode:
    """The code of a GPU driver's Xid; one that the table lacks is noted.

    A driver that is newer than the table must not stop anybody, nor be refused.
    """
    known = CODES.get(f"xid_{xid}")
    if known is not None:
        return known
    return FaultCode(f"xid_{xid}", _NOTE, f"Xid {xid}", source=XID_SOURCE)
