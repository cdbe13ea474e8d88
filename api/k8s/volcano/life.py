"""What was done with a Volcano job: the part of its record that the scheduler knows nothing of."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from api.k8s.volcano.pod_rules import number_at, text_at, tree
from api.k8s.volcano.shape import Tree


@dataclass(frozen=True, slots=True)
class Life:
    """Actions on a job, by a policy or a command.

    Attributes:
        action: The last one; "" = none that still shows.
        attempt: The job's attempt at that time.
        at_s: Unix seconds of it.
        why: In words.
        retries: Restarts by actions.
        due: Actions that wait for their time: `pod event action` -> Unix seconds; without a pod
            where it is about the whole job.
        seen: Revision of the last event that was acted on.
    """

    action: str = ""
    attempt: int = 0
    at_s: float = 0.0
    why: str = ""
    retries: int = 0
    due: Mapping[str, float] = field(default_factory=dict)
    seen: int = 0


def read_life(body: Mapping[str, object]) -> Life:
    """From the stored part of a job."""
    found = tree(body, "life")
    at, due = found.get("at_s", 0.0), tree(found, "due")
    return Life(
        action=text_at(found, "action"),
        attempt=number_at(found, "attempt"),
        at_s=float(at) if isinstance(at, int | float) else 0.0,
        why=text_at(found, "why"),
        retries=number_at(found, "retries"),
        seen=number_at(found, "seen"),
        due={k: float(v) for k, v in due.items() if isinstance(v, int | float)},
    )


def with_life(body: Mapping[str, object], life: Life) -> Tree:
    """The stored part with another life in it."""
    return dict(body) | {"life": asdict(life) | {"due": dict(life.due)}}
