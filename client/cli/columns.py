"""What each kind of object shows in a table; columns for levels come from the data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from client.cli.table import Column
from client.cli.text import age, clean, ranges, state_colour, until
from client.shapes import (
    Checkpoint,
    Claim,
    Delivery,
    Domain,
    Event,
    Job,
    Node,
    Pod,
    Queue,
    Reservation,
    Rule,
    Subject,
    Taint,
)

T = TypeVar("T")

Places = Mapping[str, str | None]
"""Level -> name of the domain there; None where there is none."""

NODE_LEVEL = "node"
"""The level that a node's own name stands for; it needs no column."""


def job_columns(jobs: Sequence[Job] = (), *, with_namespace: bool) -> list[Column[Job]]:
    """With the expected start where it is known of one of the jobs."""
    namespace: list[Column[Job]] = [Column("NAMESPACE", lambda job: job.get("namespace"))]
    starts: list[Column[Job]] = [Column("START", lambda job: until(job.get("expected_start")))]
    return [
        *(namespace if with_namespace else []),
        Column("NAME", lambda job: job.get("name")),
        Column("STATE", job_state, colour=state_colour),
        Column("PODS", lambda job: f"{job.get('running', 0)}/{job.get('members', 0)}"),
        Column("GPUS", lambda job: job.get("gpus")),
        Column("QUEUE", lambda job: job.get("queue")),
        Column("PRIORITY", lambda job: job.get("priority")),
        Column("AGE", lambda job: age(job.get("submitted_at"))),
        *(starts if any(job.get("expected_start") for job in jobs) else []),
        Column("MIN", lambda job: job.get("minimum"), wide=True),
        Column("PER-POD", lambda job: job.get("gpus_per_pod") or None, wide=True),
        Column("NODE-TYPE", lambda job: job.get("node_type"), wide=True),
        Column("ATTEMPT", lambda job: job.get("attempt"), wide=True),
        Column("BROKEN", lambda job: rules_text(job.get("rules_broken")), wide=True),
        Column("MESSAGE", lambda job: job.get("message"), wide=True),
    ]


def job_state(job: Job) -> str:
    """`running`, or with the reason of one that waits: `pending(room)`."""
    state, reason = job.get("state", ""), job.get("reason")
    if job.get("never") and state == "pending":
        reason = "never"
    if job.get("held") and state == "pending":
        reason = "held"
    return f"{state}({reason})" if reason else state


def rules_text(rules: Sequence[Rule] | None) -> str:
    """Rules in short: `pp:leaf,job:block`."""
    return ",".join(f"{rule.get('group') or 'part'}:{rule.get('within')}" for rule in rules or [])


def _pod_places(pod: Pod) -> Places:
    return pod.get("domains") or {}


def _node_places(node: Node) -> Places:
    return node.get("domains") or {}


def pod_columns(pods: Sequence[Pod], *, with_namespace: bool) -> list[Column[Pod]]:
    namespace: list[Column[Pod]] = [Column("NAMESPACE", lambda pod: pod.get("namespace"))]
    return [
        *(namespace if with_namespace else []),
        Column("NAME", lambda pod: pod.get("name")),
        Column("STATE", lambda pod: pod.get("state"), colour=state_colour),
        Column("NODE", lambda pod: pod.get("node")),
        Column("GPUS", lambda pod: ranges(pod.get("gpus") or [])),
        Column("RANKS", lambda pod: ranges(pod.get("ranks") or [])),
        *_level_columns(pods, _pod_places),
        Column("ROLE", lambda pod: pod.get("role"), wide=True),
        Column("INDEX", lambda pod: pod.get("index"), wide=True),
        Column("ATTEMPT", lambda pod: pod.get("attempt"), wide=True),
        Column("EXIT", lambda pod: pod.get("exit_code"), wide=True),
        Column("UID", lambda pod: pod.get("uid"), wide=True),
    ]


def node_columns(nodes: Sequence[Node]) -> list[Column[Node]]:
    return [
        Column("NAME", lambda node: node.get("name")),
        Column("TYPE", lambda node: node.get("type")),
        Column("GPUS", lambda node: node.get("gpus")),
        Column("FREE", lambda node: node.get("gpus_free")),
        Column("HEALTH", node_health, colour=state_colour),
        *_level_columns(nodes, _node_places),
        Column("PODS", lambda node: node.get("pods")),
        Column("MODEL", lambda node: node.get("gpu"), wide=True),
        Column("CPUS", lambda node: node.get("cpus"), wide=True),
        Column("MEMORY-GIB", lambda node: node.get("memory_gib"), wide=True),
        Column("TAINTS", taints_text, wide=True),
        Column("LABELS", lambda node: labels_text(node.get("labels")), wide=True),
        Column("REASON", _aside_reason, wide=True),
    ]


def _aside_reason(node: Node) -> str | None:
    """Why it is out of use: of its health, else of its drain, else of its cordon."""
    drain = node.get("draining") or {}
    reason = node.get("why") or drain.get("reason") or (node.get("cordoned") or {}).get("reason")
    return str(reason) if reason else None


def node_health(node: Node) -> str:
    """Health, and what else keeps new pods away: `healthy,cordoned`."""
    words = [node.get("health", "")]
    words += ["cordoned"] if node.get("cordoned") else []
    words += ["draining"] if node.get("draining") else []
    words += ["mismatch"] if node.get("mismatch") else []
    words += ["quarantined"] if node.get("quarantined_until") else []
    words += ["lemon"] if node.get("lemon") else []
    return ",".join(words)


def taints_text(node: Node) -> str:
    """All taints of a node in one cell."""
    return ",".join(map(taint_text, node.get("taints") or []))


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it: `key=value:Effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Labels in one cell: `zone=a,team=x`."""
    return ",".join(f"{key}={value}" for key, value in (labels or {}).items())


def domain_columns(*, with_level: bool, with_power: bool) -> list[Column[Domain]]:
    level: list[Column[Domain]] = [Column("LEVEL", lambda domain: domain.get("level"))]
    power: list[Column[Domain]] = [Column("POWER-KW", power_text)]
    return [
        *(level if with_level else []),
        Column("NAME", lambda domain: domain.get("name")),
        Column("PARENT", lambda domain: domain.get("parent")),
        Column("NODES", lambda domain: domain.get("nodes")),
        Column("FREE-NODES", lambda domain: domain.get("nodes_free")),
        Column("GPUS", lambda domain: domain.get("gpus")),
        Column("FREE-GPUS", lambda domain: domain.get("gpus_free")),
        Column("JOBS", lambda domain: domain.get("jobs")),
        *(power if with_power else []),
        Column("HEALTH", health_counts),
    ]


def health_counts(domain: Domain) -> str:
    """How many nodes are in which health: `30 healthy,2 lost`."""
    counts = domain.get("health") or {}
    return ",".join(f"{number} {state}" for state, number in counts.items() if number)


def power_text(domain: Domain) -> str | None:
    """Draw of the nodes in use, of what the rack may draw."""
    budget, used = domain.get("power_kw"), domain.get("power_used_kw")
    if not budget:
        return None
    return f"{budget:g}" if used is None else f"{used:g}/{budget:g}"


def queue_columns() -> list[Column[Queue]]:
    return [
        Column("NAME", lambda queue: queue.get("name")),
        Column("PARENT", lambda queue: queue.get("parent")),
        Column("USED", lambda queue: queue.get("used_gpus")),
        Column("QUOTA", lambda queue: queue.get("quota_gpus")),
        Column("LIMIT", lambda queue: queue.get("limit_gpus")),
        Column("PENDING", lambda queue: queue.get("pending")),
        Column("WEIGHT", lambda queue: queue.get("weight")),
        Column("BORROWED", lambda queue: queue.get("borrowed_gpus"), wide=True),
        Column("LENT", lambda queue: queue.get("lent_gpus"), wide=True),
        Column("SHARE", lambda queue: share_text(queue.get("share")), wide=True),
        Column("RUNNING", lambda queue: queue.get("running"), wide=True),
        Column("CLOSED", lambda queue: queue.get("closed"), wide=True),
        Column("MAX-PRIORITY", lambda queue: queue.get("max_priority"), wide=True),
        Column("NAMESPACES", lambda queue: ",".join(queue.get("namespaces") or []), wide=True),
    ]


def share_text(share: float | None) -> str | None:
    return None if share is None else f"{share:.3f}"


def event_columns() -> list[Column[Event]]:
    return [
        Column("REVISION", lambda event: event.get("revision")),
        Column("AGE", lambda event: age(event.get("at"))),
        Column("KIND", lambda event: event.get("kind")),
        Column("OBJECT", lambda event: subject_text(event.get("subject"))),
        Column("MESSAGE", lambda event: event.get("message")),
    ]


def subject_text(subject: Subject | None) -> str:
    """What an event is about: `job/research/llama-70b`, `node/n001`."""
    subject = subject or {}
    parts = (subject.get("kind"), subject.get("namespace"), subject.get("name"))
    return "/".join(part for part in parts if part)


def levels_of(places: Iterable[Places]) -> list[str]:
    """Levels above the node that any of the places names, in the order of the service."""
    levels: dict[str, None] = {}
    for place in places:
        levels.update(dict.fromkeys(place))
    levels.pop(NODE_LEVEL, None)
    return list(levels)


def _level_columns(items: Sequence[T], places: Callable[[T], Places]) -> list[Column[T]]:
    return [_level_column(level, places) for level in levels_of(map(places, items))]


def _level_column(level: str, places: Callable[[T], Places]) -> Column[T]:
    return Column(clean(level).upper(), lambda item: places(item).get(level))


def reservation_columns() -> list[Column[Reservation]]:
    return [
        Column("NAME", lambda it: it.get("name")),
        Column("STATE", lambda it: it.get("state")),
        Column("NODES", lambda it: len(it.get("nodes") or [])),
        Column("KEPT", lambda it: it.get("claimed")),
        Column("STARTS", lambda it: it.get("starts_at")),
        Column("ENDS", lambda it: it.get("ends_at")),
        Column("WHY", lambda it: it.get("why")),
        Column("NAMES", lambda it: ",".join(it.get("nodes") or []), wide=True),
    ]


def delivery_columns() -> list[Column[Delivery]]:
    return [
        Column("ID", lambda sent: sent.get("id")),
        Column("EVENT", lambda sent: sent.get("kind")),
        Column("JOB", lambda sent: f"{sent.get('namespace')}/{sent.get('job')}"),
        Column("STATE", lambda sent: sent.get("state"), colour=state_colour),
        Column("TRIES", lambda sent: sent.get("attempts")),
        Column("AGE", lambda sent: age(sent.get("created_at"))),
        Column("NEXT", lambda sent: until(sent.get("due_at"))),
        Column("ERROR", lambda sent: sent.get("error")),
        Column("URL", lambda sent: sent.get("url"), wide=True),
    ]


def checkpoint_columns() -> list[Column[Checkpoint]]:
    return [
        Column("STEP", lambda saved: saved.get("step")),
        Column("URI", lambda saved: saved.get("uri")),
        Column("TIER", lambda saved: saved.get("tier")),
        Column("COPIES", _copies),
        Column("AGE", lambda saved: age(saved.get("at"))),
    ]


def _copies(saved: Checkpoint) -> str:
    """Of how many nodes; those that are known to be lost are told."""
    nodes, lost = saved.get("nodes") or [], saved.get("lost_nodes") or []
    if not nodes:
        return "kept elsewhere"
    told = f"{len(nodes) - len(lost)} of {len(nodes)} nodes" if lost else f"{len(nodes)} nodes"
    return told if saved.get("exists") else "lost"


def claim_columns(*, of_all: bool = False) -> list[Column[Claim]]:
    """Of one job's claims, or `of_all` with whose they are."""
    whose: list[Column[Claim]] = [
        Column(
            "FOR", lambda claim: claim.get("job") or claim.get("reservation") or claim.get("pool")
        )
    ]
    return [
        *(whose if of_all else []),
        Column("WHY", lambda claim: claim.get("why")),
        Column("NODE", lambda claim: claim.get("node")),
        Column("GPUS", lambda claim: ranges(claim.get("gpus") or [])),
        Column("ROLE", lambda claim: claim.get("role")),
        Column("INDEX", lambda claim: claim.get("index")),
        Column("FROM", lambda claim: claim.get("starts_at") or "now"),
        Column("UNTIL", lambda claim: claim.get("until"), wide=True),
    ]
