"""What those around the service saw of it: what the checker compares the database with."""

from collections import defaultdict
from dataclasses import dataclass, field

Run = tuple[str, int]


@dataclass(slots=True)
class Receipt:
    """One arrival of a message at a hook.

    Attributes:
        id: Of the message.
        body: As it arrived.
        revision: The last one that had been committed then.
        taken: The receiver answered that all is well.
    """

    id: str
    body: str
    revision: int
    taken: bool


@dataclass(slots=True)
class History:
    """Everything that clients, watchers, receivers and machines know.

    Attributes:
        told: Idempotency-Key -> uids of jobs that requests under it were answered with.
        name_of: Idempotency-Key -> the job's name, which no other key has.
        deleted: Names whose record somebody asked to be gone.
        ended: Uid -> final states that it was seen in.
        receipts: At hooks, in order.
        seen: Watcher -> revision -> kind and uid of the event.
        runs: Node -> what really runs there -> its GPUs, as a mask.
        stopped: Runs of which their machine knows that they are over, or never began.
        has_agent: Nodes of which an agent has ever spoken.
    """

    told: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    name_of: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    ended: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    receipts: list[Receipt] = field(default_factory=list)
    seen: dict[str, dict[int, tuple[str, str]]] = field(default_factory=lambda: defaultdict(dict))
    runs: dict[str, dict[Run, int]] = field(default_factory=lambda: defaultdict(dict))
    complaints: list[str] = field(default_factory=list)
