"""`yardctl get`: lists, and objects by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Generic, TypeVar

import typer

from client.cli import columns
from client.cli.complaints import complain
from client.cli.kinds import (
    CLAIM,
    DELIVERY,
    DOMAIN,
    EVENT,
    INVENTORY,
    JOB,
    KINDS,
    NODE,
    POD,
    QUEUE,
    RACK,
    RESERVATION,
    Kind,
    split_things,
)
from client.cli.labels import matcher
from client.cli.options import (
    AllNamespacesOption,
    LabelsOption,
    NamespaceOption,
    OutputOption,
    ServerOption,
)
from client.cli.output import Output, write_list, write_object
from client.cli.session import REFUSED, Session, open_session
from client.cli.table import Column, Table, blocks
from client.cli.text import clean, note, out
from client.errors import ApiError
from client.shapes import Domain, Job, Node

T = TypeVar("T", bound=Mapping[str, object])


@dataclass(frozen=True, slots=True)
class Filters:
    """What narrows a list; None = does not."""

    queue: str | None = None
    state: str | None = None
    job: str | None = None
    node: str | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What one `get` is to show."""

    session: Session
    kind: Kind
    names: tuple[str, ...]
    filters: Filters
    headed: bool = True


@dataclass(slots=True)
class Found(Generic[T]):
    """Objects, fetched while they are iterated.

    Attributes:
        revision: Of the list they come from; asked for after the last.
        missing: What to say of each name that was not found; complete after the last.
    """

    items: Iterable[T]
    revision: Callable[[], int | None] = lambda: None
    missing: list[ApiError] = field(default_factory=list)


def get(
    ctx: typer.Context,
    things: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND",
            help="KIND [NAME]..., or KIND/NAME...; kinds: jobs, pods (po), nodes (no), racks, "
            "domains (dom), queues (q), reservations (res), claims, deliveries, events (ev), "
            "inventory (inv).",
            show_default=False,
        ),
    ],
    *,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Jobs of a queue.")] = None,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="In a state.")] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="What is of a job.")] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Pods or claims on a node.")
    ] = None,
    level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Domains of a level; of all without.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on to write jobs that change.")
    ] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Rows alone.")] = False,
    labels: LabelsOption = None,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    server: ServerOption = None,
) -> None:
    """List objects, or show those with the given names."""
    session = open_session(
        ctx,
        server=server,
        namespace=namespace,
        all_namespaces=all_namespaces,
        output=output,
        labels=labels,
    )
    kind, names = split_things(things, KINDS)
    filters = Filters(queue, state, job, node, level)
    asked = Asked(session, kind, tuple(names), filters, headed=not no_headers)
    _check_options(asked, is_watched=watch)
    if watch:
        from client.cli.watch import watch_jobs

        watch_jobs(session, names, queue=queue, state=state, headed=not no_headers)
    else:
        _SHOW[kind](asked)


def _check_options(asked: Asked, *, is_watched: bool) -> None:
    """Refuse an option that this kind has no use for, rather than overlook it."""
    filters, kind = asked.filters, asked.kind
    idle = [
        (filters.queue, "--queue", (JOB,)),
        (filters.state, "--state", (JOB, DELIVERY)),
        (filters.job, "--job", (POD, CLAIM, DELIVERY, EVENT)),
        (filters.node, "--node", (POD, CLAIM)),
        (filters.level, "--level", (DOMAIN,)),
        (asked.session.options.labels, "-l", (NODE,)),
        (is_watched or None, "-w", (JOB,)),
    ]
    for value, option, kinds in idle:
        if value is not None and kind not in kinds:
            words = " and ".join(other.plural for other in kinds)
            raise typer.BadParameter(f"{option} is for {words}, not for {kind.plural}")
    if asked.names and kind is CLAIM:
        raise typer.BadParameter("claims have no names; see --job and --node")
    if asked.names and kind is EVENT:
        raise typer.BadParameter("events have no names; see --job and yardctl events --since")
    if asked.names and kind is INVENTORY:
        raise typer.BadParameter("there is one inventory; give no name")


# -- what each kind fetches -------------------------------------------------------------------


def _jobs(asked: Asked) -> None:
    session, filters = asked.session, asked.filters
    found: Found[Job]
    if asked.names:
        found = _by_name(asked.names, lambda name: session.client.job(*session.split_name(name)))
    else:
        pages = session.client.jobs(
            namespace=session.list_namespace, queue=filters.queue, state=filters.state
        )
        found = Found(pages, lambda: pages.revision)
    with_namespace = session.options.all_namespaces
    _show(asked, found, lambda first: columns.job_columns(first, with_namespace=with_namespace))


def _pods(asked: Asked) -> None:
    session, filters = asked.session, asked.filters
    namespace, job = session.list_namespace, None
    if filters.job is not None:
        namespace, name = session.job_name(filters.job)
        job = name
    pages = session.client.pods(namespace=namespace, job=job, node=filters.node)
    found = Found(pages, lambda: pages.revision)
    with_namespace = session.options.all_namespaces
    _show(
        asked,
        _picked(asked, found),
        lambda first: columns.pod_columns(first, with_namespace=with_namespace),
    )


def _nodes(asked: Asked) -> None:
    client, is_match = asked.session.client, matcher(asked.session.options.labels)
    found: Found[Node]
    if asked.names:
        found = _by_name(asked.names, client.node)
    else:
        pages = client.nodes()
        matching = (node for node in pages if is_match(node.get("labels") or {}))
        found = Found(matching, lambda: pages.revision)
    _show(asked, found, columns.node_columns)


def _racks(asked: Asked) -> None:
    pages = asked.session.client.racks()
    _show(
        asked,
        _picked(asked, Found(pages, lambda: pages.revision)),
        lambda first: columns.domain_columns(
            with_level=False, with_power=any(rack.get("power_kw") for rack in first)
        ),
    )


def _domains(asked: Asked) -> None:
    client, level = asked.session.client, asked.filters.level
    levels = [level] if level else client.topology().get("levels", [])[:-1]
    items: Iterable[Domain] = (domain for name in levels for domain in client.domains(name))
    _show(
        asked,
        _picked(asked, Found(items)),
        lambda _: columns.domain_columns(with_level=len(levels) > 1, with_power=False),
    )


def _queues(asked: Asked) -> None:
    client = asked.session.client
    if asked.names:
        found = _by_name(asked.names, client.queue)
    else:
        pages = client.queues()
        found = Found(pages, lambda: pages.revision)
    _show(asked, found, lambda _: columns.queue_columns())


def _reservations(asked: Asked) -> None:
    client = asked.session.client
    if asked.names:
        found = _by_name(asked.names, client.reservation)
    else:
        pages = client.reservations()
        found = Found(pages, lambda: pages.revision)
    _show(asked, found, lambda _: columns.reservation_columns())


def _claims(asked: Asked) -> None:
    session, filters = asked.session, asked.filters
    namespace, job = None, None
    if filters.job is not None:
        namespace, job = session.job_name(filters.job)
    pages = session.client.claims(namespace=namespace, job=job, node=filters.node)
    _show(asked, Found(pages, lambda: pages.revision), lambda _: columns.claim_columns(of_all=True))


def _deliveries(asked: Asked) -> None:
    session, filters = asked.session, asked.filters
    if asked.names:
        _show(
            asked,
            _by_name(asked.names, session.client.delivery),
            lambda _: columns.delivery_columns(),
        )
        return
    namespace, job = session.options.namespace, None
    if filters.job is not None:
        namespace, job = session.job_name(filters.job)
    pages = session.client.deliveries(namespace=namespace, job=job, state=filters.state)
    _show(asked, Found(pages, lambda: pages.revision), lambda _: columns.delivery_columns())


def _events(asked: Asked) -> None:
    from client.cli.events import show_events

    show_events(asked.session, job=asked.filters.job, headed=asked.headed)


def _inventory(asked: Asked) -> None:
    """The whole inventory; YAML is its own form, so that is what a plain `get` shows too."""
    session = asked.session
    text = session.client.inventory()
    if session.output is Output.NAME:
        out(INVENTORY.name)
    elif session.output is Output.JSON:
        from client.cli.files import parse_one

        write_object(parse_one(text), Output.JSON)
    else:
        out(text.removesuffix("\n"))


_SHOW: Mapping[Kind, Callable[[Asked], None]] = {
    JOB: _jobs,
    POD: _pods,
    NODE: _nodes,
    RACK: _racks,
    DOMAIN: _domains,
    QUEUE: _queues,
    RESERVATION: _reservations,
    DELIVERY: _deliveries,
    CLAIM: _claims,
    EVENT: _events,
    INVENTORY: _inventory,
}


def _by_name(names: Sequence[str], fetch: Callable[[str], T]) -> Found[T]:
    """Objects fetched one by one; those not found are noted, the rest is still shown."""
    found: Found[T] = Found(())

    def items() -> Iterator[T]:
        for name in names:
            try:
                yield fetch(name)
            except ApiError as error:
                if error.status != 404:
                    raise
                found.missing.append(error)

    found.items = items()
    return found


def _picked(asked: Asked, found: Found[T]) -> Found[T]:
    """Those of a list that are named; the service has no call for a single one of this kind."""
    if not asked.names:
        return found
    kind = asked.kind
    wanted = {
        asked.session.split_name(name)[1] if kind.namespaced else name for name in asked.names
    }
    source = found.items

    def items() -> Iterator[T]:
        missing = dict.fromkeys(sorted(wanted))
        for item in source:
            if item.get("name") in wanted:
                missing.pop(str(item["name"]), None)
                yield item
        for name in missing:
            found.missing.append(ApiError(404, "Not found", f"there is no {kind.name} '{name}'"))

    found.items = items()
    return found


# -- how they are written ---------------------------------------------------------------------


def _show(
    asked: Asked, found: Found[T], columns_for: Callable[[Sequence[T]], list[Column[T]]]
) -> None:
    """Write objects in the wanted format.

    Raises:
        typer.Exit: With code 1 if a name was not found, after the others were written.
    """
    session = asked.session
    if session.data_output is not None:
        _write_data(asked, found, session.data_output)
    elif session.output is Output.NAME:
        for item in found.items:
            out(clean(reference(asked.kind, item)))
    else:
        _write_table(asked, found, columns_for)
    for error in found.missing:
        complain(error)
    if found.missing:
        raise typer.Exit(REFUSED)


def _write_data(asked: Asked, found: Found[T], output: Output) -> None:
    if len(asked.names) == 1:
        for item in found.items:
            write_object(item, output)
    else:
        write_list(found.items, found.revision, output)


def _write_table(
    asked: Asked, found: Found[T], columns_for: Callable[[Sequence[T]], list[Column[T]]]
) -> None:
    table: Table[T] | None = None
    for block in blocks(found.items):
        if table is None:
            chosen = [c for c in columns_for(block) if asked.session.is_wide or not c.wide]
            table = Table(chosen, headed=asked.headed)
        table.write(block)
    if table is None and not found.missing:
        note(_nothing(asked))


def _nothing(asked: Asked) -> str:
    if asked.kind.namespaced and not asked.session.options.all_namespaces:
        return f"No {asked.kind.plural} in namespace '{clean(asked.session.namespace)}'."
    return f"No {asked.kind.plural}."


def reference(kind: Kind, item: Mapping[str, object]) -> str:
    """What other commands take: `node/n001`, `job/research/llama-70b`."""
    name = item.get("name") or item.get("uid")
    parts = [kind.name, item.get("namespace") if kind.namespaced else None, name]
    return "/".join(str(part) for part in parts if part)
