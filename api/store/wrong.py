"""What an audit may find wrong, and which parts of the yard it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class WrongKind(StrEnum):
    """What is wrong, so that the doctor knows what to do about it."""

    DOUBLE = "double"
    """Two live pods hold the same GPUs; uids: the one that came later, the one that was there."""
    MOVED = "moved"
    """A live pod is not where the decision log has it; uids: the pod."""
    MISSING = "missing"
    """A live pod of the decision log has no row any more; uids: the pod."""
    CLAIMS_MEET = "claims_meet"
    """Two claims have the same GPUs at one time; uids: both."""
    CLAIM_BEYOND = "claim_beyond"
    """A claim has GPUs that its node has not; uids: the claim."""
    CLAIM_OF_NOBODY = "claim_of_nobody"
    """A claim of a job that has ended; uids: the claim."""
    CLAIM_OVER_POD = "claim_over_pod"
    """A pod stays where a claim is to become one; uids: the claim, the pod."""
    STANDING = "standing"
    """A node's health is not what its faults make it."""
    NO_TRIGGER = "no_trigger"
    """What keeps the ledger is switched off; uids: the trigger."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong.

    Attributes:
        text: In words.
        nodes: Names of those that it is about.
        jobs: Uids of those that it is about.
        uids: See `WrongKind`.
    """

    kind: WrongKind
    text: str
    nodes: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a yard that something is wrong with.

    Attributes:
        nodes, jobs: Name or uid -> the first thing that is wrong with it, in words.
    """

    nodes: Mapping[str, str]
    jobs: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.nodes) + len(self.jobs)


def parts_of(found: Iterable[Wrong]) -> Parts:
    """Every node and job that any of these is about."""
    nodes: dict[str, str] = {}
    jobs: dict[str, str] = {}
    for wrong in found:
        for names, into in ((wrong.nodes, nodes), (wrong.jobs, jobs)):
            for name in names:
                into.setdefault(name, wrong.text)
    return Parts(dict(sorted(nodes.items())), dict(sorted(jobs.items())))
