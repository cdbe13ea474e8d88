"""`yardctl whatif`: what would happen with further jobs, fewer nodes or other limits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer

from client.cli.columns import job_state
from client.cli.files import Content, Document, read_documents
from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.submit import in_namespace
from client.cli.table import Column, Table
from client.cli.text import clean, count, out
from client.cli.verdict import without_aside
from client.errors import InputError
from client.shapes import Body, WhatIf, WhatIfJob, WhatIfPlace

NAMES_SHOWN = 4

Nodes = list[str] | None
FilesOrNone = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        help="Jobs to submit, an inventory of nodes to add, or a body of /v1/whatif.",
        show_default=False,
    ),
]


def _names(flag: str, what: str) -> object:
    return typer.Option(flag, metavar="NODES", help=f"{what}; a hostlist, repeatable.")


def whatif(
    ctx: typer.Context,
    *,
    files: FilesOrNone = None,
    drain: Annotated[Nodes, _names("--drain", "Nodes to drain")] = None,
    cordon: Annotated[Nodes, _names("--cordon", "Nodes to cordon")] = None,
    uncordon: Annotated[Nodes, _names("--uncordon", "Nodes to uncordon")] = None,
    remove: Annotated[Nodes, _names("--remove", "Nodes to remove")] = None,
    lose: Annotated[
        list[str] | None,
        typer.Option(metavar="NODES|LEVEL/NAME", help="Nodes, or a domain, to lose; repeatable."),
    ] = None,
    lose_set: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND/NAME", help="A named set of nodes to lose; repeatable."),
    ] = None,
    finish: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="A job that ends; repeatable.")
    ] = None,
    cancel: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="A job to cancel; repeatable.")
    ] = None,
    priority: Annotated[
        list[str] | None, typer.Option(metavar="JOB=N", help="Another priority; repeatable.")
    ] = None,
    quota: Annotated[
        list[str] | None, typer.Option(metavar="QUEUE=GPUS", help="Another quota; repeatable.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="QUEUE=GPUS", help="Another limit; repeatable.")
    ] = None,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Ask what would happen; the scheduler decides on a copy of the cluster, nothing changes."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    changes: list[Body] = []
    for kind, texts in (
        ("drain", drain),
        ("cordon", cordon),
        ("uncordon", uncordon),
        ("remove_nodes", remove),
    ):
        changes += [{"kind": kind, "nodes": list(texts)}] if texts else []
    changes += [_lost(text) for text in lose or []]
    changes += [_lost_set(text) for text in lose_set or []]
    for kind, texts in (("finish", finish), ("cancel", cancel)):
        changes += [{"kind": kind, "job": _job(session, text)} for text in texts or []]
    for name, number in _pairs("--priority", priority):
        changes.append({"kind": "priority", "job": _job(session, name), "priority": number})
    for name, number in _pairs("--quota", quota):
        changes.append({"kind": "quota", "queue": name, "quota_gpus": number})
    for name, number in _pairs("--limit", limit):
        changes.append({"kind": "quota", "queue": name, "limit_gpus": number})
    body = _body(session, read_documents(files or [], with_whatif=True), changes)
    if not body["jobs"] and not body["changes"]:
        raise typer.BadParameter("give a file, or one of --drain, --lose, --finish and so on")
    found = session.client.what_if(body)
    if session.data_output is not None:
        write_object(found, session.data_output)
    else:
        write_consequences(found)


def _lost(text: str) -> Body:
    level, slash, domain = text.partition("/")
    if slash:
        return {"kind": "lose_switch", "level": level, "domain": domain}
    return {"kind": "lose_node", "nodes": [text]}


def _lost_set(text: str) -> Body:
    kind, slash, name = text.partition("/")
    if not slash:
        raise typer.BadParameter(f"'{text}' is not a set; give KIND/NAME, as in --lose-set cdu/c1")
    return {"kind": "lose_set", "set_kind": kind, "set": name}


def _job(session: Session, text: str) -> str:
    return "/".join(session.job_name(text))


def _pairs(flag: str, texts: Sequence[str] | None) -> Iterator[tuple[str, int]]:
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        if not equals or not number.lstrip("-").isdecimal():
            raise typer.BadParameter(f"{flag} takes NAME=NUMBER; found '{text}'")
        yield name, int(number)


def _body(
    session: Session, documents: Sequence[Document], changes: list[Body]
) -> dict[str, list[object]]:
    """One body of what all files and options say.

    Raises:
        InputError: If a file holds what this cannot send.
    """
    jobs: list[object] = []
    all_changes: list[object] = []
    for document in documents:
        if document.content is Content.JOB:
            jobs.append(in_namespace(session, document))
        elif document.content is Content.INVENTORY:
            all_changes.append({"kind": "add_nodes", "add": list(_added(document))})
        else:
            for key, into in (("jobs", jobs), ("changes", all_changes)):
                listed = document.value.get(key) or []
                if not isinstance(listed, list):
                    raise InputError(f"{document.source}: '{key}' is not a list")
                into += listed
    return {"jobs": jobs, "changes": [*all_changes, *changes]}


def _added(document: Document) -> Iterator[Body]:
    """The nodes of an inventory as a what-if adds them: levels are all keys it does not know."""
    nodes = document.value.get("nodes")
    for entry in nodes if isinstance(nodes, list) else []:
        if not isinstance(entry, Mapping):
            raise InputError(f"{document.source}: an entry of 'nodes' is not a mapping")
        places = {
            key: value
            for key, value in entry.items()
            if key not in {"names", "name", "type", "labels", "taints"}
        }
        yield {
            "names": entry.get("names", entry.get("name")),
            "type": entry.get("type"),
            "places": places,
            "labels": entry.get("labels") or {},
        }


# -- the answer -----------------------------------------------------------------------------------


def write_consequences(found: WhatIf) -> None:
    """Write an answer as text: jobs that are supposed, jobs affected, GPUs before and after."""
    if jobs := found.get("jobs"):
        out("If they were submitted:")
        _table("WOULD BE", job_state, jobs)
        out()
    effects = found.get("effects") or {}
    if effects:
        told = ", ".join(f"{number} {effect}" for effect, number in effects.items())
        out(clean(f"Jobs affected: {told}"))
        _table("EFFECT", lambda job: job.get("effect"), found.get("affected") or [])
        shown = len(found.get("affected") or [])
        if hidden := found.get("hidden"):
            out(f"  and {count(hidden, 'job')} of other tenants")
        if (more := sum(effects.values()) - shown - (hidden or 0)) > 0:
            out(f"  and {count(more, 'more job')}")
    else:
        out("No job that is there would be affected.")
    before, after = found.get("gpus_before") or {}, found.get("gpus_after") or {}
    out()
    out("GPUs           NOW   THEN")
    for key in ("total", "used", "free"):
        number, then = (str(side.get(key, "-")) for side in (before, after))
        out(f"  {key:<8} {number:>7} {then:>6}")
    if found.get("settled") is False:
        out(f"The copy was still changing after {count(found.get('cycles', 0), 'cycle')}.")
    out("Nothing was changed.")


def _table(title: str, value: object, jobs: Sequence[WhatIfJob]) -> None:
    columns: list[Column[WhatIfJob]] = [
        Column("JOB", lambda job: job.get("job")),
        Column(title, value),  # type: ignore[arg-type]  # both callers give a function of a job
        Column("GPUS", lambda job: _gpus(job)),
        Column("WHERE OR WHY", _where_or_why),
    ]
    Table(columns, indent="  ").write(jobs)


def _gpus(job: WhatIfJob) -> int | None:
    place = job.get("placement")
    return place.get("gpus") if place else job.get("gpus")


def _where_or_why(job: WhatIfJob) -> str:
    place = job.get("placement")
    if place:
        return place_text(place)
    if job.get("never"):
        return f"never fits: {job.get('message')}"
    return without_aside(job.get("message") or "") or (
        "ends" if job.get("effect") == "ended" else "waits"
    )


def place_text(place: WhatIfPlace) -> str:
    """`4 pods: rack r3, leaf l2, 4 nodes`; levels innermost first."""
    parts = []
    for level, found in reversed((place.get("domains") or {}).items()):
        number, names = found.get("count", 0), found.get("names") or []
        if 0 < number <= NAMES_SHOWN:
            parts.append(f"{level} {' '.join(names)}")
        elif number:
            parts.append(f"{number} nodes" if level == "node" else f"{number} {level} domains")
    return f"{count(place.get('pods', 0), 'pod')}: {', '.join(parts)}"
