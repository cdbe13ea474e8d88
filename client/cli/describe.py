"""`yardctl describe`: all that is known of one job, node or queue."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated

import typer

from client.cli import columns
from client.cli.explain import WAITING
from client.cli.kinds import JOB, NODE, QUEUE, split_things
from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.table import Column, T, Table, write_pairs
from client.cli.text import age, clean, count, out, ranges, state_colour, until
from client.cli.verdict import reason_text, spread, verdict_pairs
from client.shapes import Event, Job, Node, Pod, Queue

LIVE = {"bound", "running", "terminating", "lost"}
"""States of a pod that holds its GPUs."""

CLAIMING = {"reserved", "recovering"}
"""States of a job for which GPUs are kept."""

PODS_SHOWN = 40
EVENTS_SHOWN = 10
CHECKPOINTS_SHOWN = 5


def describe(
    ctx: typer.Context,
    *,
    things: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND",
            help="KIND NAME..., or KIND/NAME...; kinds: job, node (no), queue (q).",
            show_default=False,
        ),
    ],
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Show all that is known of jobs, nodes or queues."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    kind, names = split_things(things, (JOB, NODE, QUEUE))
    if not names:
        raise typer.BadParameter(f"name at least one {kind.name}")
    show = {JOB: _job, NODE: _node, QUEUE: _queue}[kind]
    for number, name in enumerate(names):
        if number:
            out()
        show(session, name)


def _job(session: Session, text: str) -> None:
    where = session.job_name(text)
    job = session.client.job(*where)
    if session.data_output is not None:
        write_object(job, session.data_output)
        return
    pods = list(session.client.pods(namespace=where[0], job=where[1]))
    live = [pod for pod in pods if pod.get("node")]
    write_pairs(_job_pairs(job, live))
    if job.get("state") in WAITING:
        _write_verdict(session, where)
    if job.get("state") in CLAIMING or (job.get("spec") or {}).get("spares"):
        _write_claims(session, where)
    if job.get("saved"):
        _write_checkpoints(session, where)
    if live:
        out("\nPods:")
        listed = columns.pod_columns(live, with_namespace=False)
        _write_table(listed, live[:PODS_SHOWN])
        if len(live) > PODS_SHOWN:
            more = len(live) - PODS_SHOWN
            out(clean(f"  ... and {more} more: yardctl get pods --job {'/'.join(where)}"))
    _write_events(list(session.client.job_events(*where)))


def _job_pairs(job: Job, pods: Sequence[Pod]) -> Iterator[tuple[str, object]]:
    yield "Name", job.get("name")
    yield "Namespace", job.get("namespace")
    yield "UID", job.get("uid")
    yield "State", columns.job_state(job)
    if job.get("message") and job.get("state") not in WAITING:
        yield "Message", job.get("message")
    yield from _way(job)
    yield "Queue", job.get("queue")
    yield "Priority", ", ".join(_standing(job))
    yield "Shape", shape_text(job.get("spec") or {})
    yield "Rules", [_spec_rule(rule) for rule in _list_of(job.get("spec") or {}, "topology")]
    yield "GPUs", job.get("gpus")
    running, members = job.get("running", 0), job.get("members", 0)
    yield "Pods", f"{running} running of {members}, minimum {job.get('minimum', 0)}"
    if job.get("gpus_per_pod"):
        yield "GPUs per pod", job.get("gpus_per_pod")
    if job.get("node_type"):
        yield "Node type", job.get("node_type")
    if pods:
        yield "Domains", spread(pods)
    yield "Rules broken", columns.rules_text(job.get("rules_broken"))
    yield "Attempt", job.get("attempt")
    yield "Submitted", _when(job.get("submitted_at"))
    for name, stamp in (
        ("Bound", job.get("bound_at")),
        ("Started", job.get("started_at")),
        ("Finished", job.get("finished_at")),
    ):
        if stamp:
            yield name, _when(stamp)


def _standing(job: Job) -> Iterator[str]:
    """Its priority, and what preemption does not do with it."""
    yield str(job.get("priority"))
    if not job.get("preemptible", True):
        yield "not preemptible"
    if not (job.get("spec") or {}).get("preempts", True):
        yield "preempts nobody"


def _way(job: Job) -> Iterator[tuple[str, object]]:
    """Whether it is held, when it may start, and how it leaves; nothing where nothing is so."""
    if job.get("held"):
        yield "Held", job.get("mismatch") or "until it is released"
    if stamp := job.get("expected_start"):
        yield "Expected start", f"{stamp} ({until(stamp)})"
    if leaves := job.get("evicting"):
        deadline = f", until {leaves['deadline']}" if leaves.get("deadline") else ""
        why = f": {leaves['why']}" if leaves.get("why") else ""
        yield "Leaves", f"{leaves.get('step')}{deadline}, then {leaves.get('then')}{why}"
    if lost := job.get("recovering"):
        yield "Recovers", recovering_text(lost)
    if crashes := job.get("crashes"):
        yield "Crashes", crashes
    if saved := job.get("saved"):
        yield "Saved", f"step {saved.get('step')} at {saved.get('uri')}, {_when(saved.get('at'))}"


def recovering_text(lost: Mapping[str, object]) -> str:
    """`1 pod lost 2m ago; holds its place until ... (in 8m)`."""
    parts = []
    if lost.get("since"):
        parts.append(f"{count(_int(lost.get('lost')), 'pod')} lost, since {lost['since']}")
    if stamp := lost.get("hold_until"):
        parts.append(f"holds its place until {stamp} ({until(str(stamp))})")
    if stamp := lost.get("not_before"):
        parts.append(f"starts anew {until(str(stamp))}, after a crash")
    if lost.get("goes_first"):
        parts.append("goes first in line")
    return "; ".join(parts)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def shape_text(spec: dict[str, object]) -> object:
    """`tp 8, pp 8, dp 16`, or a line for each role."""
    parallel = spec.get("parallelism")
    if isinstance(parallel, dict):
        axes = ("tp", "cp", "pp", "dp", "ep", "etp")
        sizes = [(axis, _size(parallel.get(axis))) for axis in axes]
        told = [f"{axis} {size}" for axis, size in sizes if size not in {None, 1}]
        return ", ".join(told) or "1 rank"
    return [_role_text(role) for role in _list_of(spec, "roles")]


def _size(value: object) -> object:
    """One size, or those that the job may start with, as in `8 or 16`."""
    sizes = value.get("sizes") if isinstance(value, dict) else None
    return " or ".join(map(str, sizes)) if isinstance(sizes, list) else value


def _role_text(role: dict[str, object]) -> str:
    replicas, least = role.get("replicas"), role.get("min")
    minimum = f" (min {least})" if least not in {None, replicas} else ""
    one_per_node = ", one per node" if role.get("one_per_node") else ""
    return f"{role.get('name')}: {replicas} x {role.get('gpus', 0)} GPUs{minimum}{one_per_node}"


def _list_of(spec: dict[str, object], key: str) -> list[dict[str, object]]:
    value = spec.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _spec_rule(rule: dict[str, object]) -> str:
    return f"{rule.get('group')} within {rule.get('within')}, {rule.get('mode', 'required')}"


def _when(stamp: str | None) -> str | None:
    return f"{stamp} ({age(stamp)} ago)" if stamp else None


def _write_claims(session: Session, where: tuple[str, str]) -> None:
    claims = list(session.client.claims(namespace=where[0], job=where[1]))
    if claims:
        out("\nKept for it:")
        _write_table(columns.claim_columns(), claims[:PODS_SHOWN])
        if len(claims) > PODS_SHOWN:
            out(f"  ... and {len(claims) - PODS_SHOWN} more")


def _write_checkpoints(session: Session, where: tuple[str, str]) -> None:
    saved = list(islice(session.client.checkpoints(*where), CHECKPOINTS_SHOWN))
    if saved:
        out("\nCheckpoints:")
        _write_table(columns.checkpoint_columns(), saved)


def _write_verdict(session: Session, where: tuple[str, str]) -> None:
    verdict = session.client.explain(*where)
    out("\nWaits:")
    out(clean(f"  {reason_text(verdict)}"))
    write_pairs(verdict_pairs(verdict), indent="  ")


def _node(session: Session, name: str) -> None:
    node = session.client.node(name)
    if session.data_output is not None:
        write_object(node, session.data_output)
        return
    write_pairs(_node_pairs(node))
    pods = [pod for pod in session.client.pods(node=name) if pod.get("state") in LIVE]
    if pods:
        out("\nPods:")
        _write_table(_pods_on_node(), pods)


def _node_pairs(node: Node) -> Iterator[tuple[str, object]]:
    yield "Name", node.get("name")
    yield "Type", node.get("type")
    for level, place in (node.get("domains") or {}).items():
        yield clean(level).capitalize(), place
    yield "Health", columns.node_health(node)
    if node.get("why"):
        yield "Since", f"{_when(node.get('since')) or '-'}: {node.get('why')}"
    if node.get("fenced"):
        yield "Fenced", "nothing runs there any more"
    if node.get("mismatch"):
        yield "Mismatch", f"{node.get('mismatch')}; podyard doctor --fix mends it"
    if stamp := node.get("quarantined_until"):
        yield "Quarantined", f"until {stamp} ({until(stamp)})"
    if node.get("lemon"):
        yield "Lemon", "fails far more than others"
    if cordon := node.get("cordoned"):
        yield "Cordoned", _aside_text(cordon)
    if drain := node.get("draining"):
        yield "Draining", _drain_text(drain)
    if faults := node.get("faults"):
        yield "Faults", [fault_text(fault) for fault in faults]
    yield "GPU model", node.get("gpu")
    yield "GPUs", f"{node.get('gpus_free', 0)} free of {node.get('gpus', 0)}"
    yield "CPUs", node.get("cpus") or None
    yield "Memory", f"{node['memory_gib']:g} GiB" if node.get("memory_gib") else None
    yield "Labels", [f"{key}={value}" for key, value in (node.get("labels") or {}).items()]
    yield "Taints", [columns.taint_text(taint) for taint in node.get("taints") or []]


def _aside_text(said: Mapping[str, object]) -> str:
    by = f" by {said['by']}" if said.get("by") else ""
    return f"{age(str(said.get('at')))} ago{by}: {said.get('reason') or 'no reason given'}"


def _drain_text(said: Mapping[str, object]) -> str:
    deadline = said.get("deadline")
    limit = f"by force {until(str(deadline))}" if deadline else "never by force"
    return f"{_aside_text(said)}; {'it is empty' if said.get('done') else limit}"


def fault_text(fault: Mapping[str, object]) -> str:
    """`xid_79 of GPU 3 (id 812), 5m ago: seen in the kernel log`."""
    gpus = fault.get("gpus")
    of = f" of GPU {ranges(gpus)}" if isinstance(gpus, list) and gpus else ""
    of += f" of rail {fault['rail']}" if fault.get("rail") is not None else ""
    said = f": {fault['message']}" if fault.get("message") else ""
    return f"{fault.get('code')}{of} (id {fault.get('id')}), {age(str(fault.get('at')))} ago{said}"


def _pods_on_node() -> list[Column[Pod]]:
    return [
        Column("JOB", lambda pod: pod.get("job")),
        Column("POD", lambda pod: pod.get("name")),
        Column("STATE", lambda pod: pod.get("state"), colour=state_colour),
        Column("GPUS", lambda pod: ranges(pod.get("gpus") or [])),
        Column("RANKS", lambda pod: ranges(pod.get("ranks") or [])),
    ]


def _queue(session: Session, name: str) -> None:
    queue = session.client.queue(name)
    if session.data_output is not None:
        write_object(queue, session.data_output)
        return
    write_pairs(_queue_pairs(queue))
    waiting = list(islice(session.client.jobs(queue=name, state="pending"), EVENTS_SHOWN))
    if waiting:
        out("\nFirst to wait, by age:")
        _write_table(columns.job_columns(with_namespace=True), waiting)


def _queue_pairs(queue: Queue) -> Iterator[tuple[str, object]]:
    yield "Name", queue.get("name")
    yield "Parent", queue.get("parent")
    yield "Closed", queue.get("closed")
    yield "GPUs in use", queue.get("used_gpus")
    yield from _by_model("  of", queue.get("used_by_model"))
    yield "Quota", queue.get("quota_gpus")
    yield from _by_model("  of", queue.get("quota_by_model"))
    yield "Borrowed", queue.get("borrowed_gpus")
    yield "Lent", queue.get("lent_gpus")
    yield "Limit", queue.get("limit_gpus")
    yield from _by_model("  of", queue.get("limit_by_model"))
    yield "Weight", queue.get("weight")
    yield "Share", columns.share_text(queue.get("share"))
    yield "Max priority", queue.get("max_priority")
    yield "Max pending", queue.get("max_pending")
    yield "Namespaces", ", ".join(queue.get("namespaces") or []) or "any"
    yield "Jobs pending", queue.get("pending")
    yield "Jobs with a place", queue.get("running")


def _by_model(word: str, gpus: Mapping[str, int] | None) -> Iterator[tuple[str, object]]:
    for model, number in (gpus or {}).items():
        yield f"{word} {clean(model)}", number


def _write_events(events: Sequence[Event]) -> None:
    if not events:
        return
    out("\nEvents:")
    _write_table(columns.event_columns(), events[-EVENTS_SHOWN:])


def _write_table(listed: Sequence[Column[T]], items: Sequence[T]) -> None:
    Table([column for column in listed if not column.wide], indent="  ").write(items)
