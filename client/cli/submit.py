"""`yardctl create`: jobs from files."""

import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from client.cli.complaints import complain
from client.cli.files import Content, Document, read_documents
from client.cli.options import FilesOption, NamespaceOption, OutputOption, ServerOption
from client.cli.output import Output, write_object
from client.cli.session import DEFAULT_NAMESPACE, REFUSED, Session, open_session
from client.cli.table import write_pairs
from client.cli.text import clean, count, note, out
from client.cli.verdict import HEADLINES, spread, verdict_pairs, when_of
from client.errors import ApiError, InputError, WaitedInVain
from client.shapes import Job, Verdict


class NeverFits(Exception):
    """A dry run said so; the reader has been told."""


class DryRun(StrEnum):
    SERVER = "server"


class WaitFor(StrEnum):
    BOUND = "bound"
    RUNNING = "running"
    FINISHED = "finished"


def create(
    ctx: typer.Context,
    *,
    files: FilesOption,
    dry_run: Annotated[
        DryRun | None,
        typer.Option("--dry-run", help="Ask the service where it would go; keep nothing."),
    ] = None,
    wait: Annotated[WaitFor | None, typer.Option(help="Wait until the job is so far.")] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Longest wait.")
    ] = 300.0,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Submit jobs."""
    if wait is not None and dry_run is not None:
        raise typer.BadParameter("a dry run leaves nothing to wait for")
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    documents = read_documents(files)
    for document in documents:
        if document.content is not Content.JOB:
            raise InputError(
                f"{document.source}: not a job; inventories and queues are for yardctl apply"
            )
        in_namespace(session, document)
    worst, jobs = 0, []
    for document in documents:
        try:
            job = submit_document(session, document, is_dry=dry_run is not None)
        except (ApiError, InputError) as error:
            worst = max(worst, complain(error, document.source if len(documents) > 1 else ""))
        except NeverFits:
            worst = max(worst, REFUSED)
        else:
            jobs += [job] if job is not None else []
    if wait is not None:
        worst = max(worst, wait_for(session, jobs, wait, timeout_s))
    elif session.data_output is not None:
        for job in jobs:
            write_document(session, job)
    if worst:
        raise typer.Exit(worst)


def in_namespace(session: Session, document: Document) -> dict[str, object]:
    """The job of a document, in the namespace the caller named unless it says one itself.

    Raises:
        InputError: If both do, and differ.
    """
    body = dict(document.value)
    asked = session.options.namespace
    if body.get("namespace") is None:
        body.pop("namespace", None)
        if session.given_namespace:
            body["namespace"] = session.given_namespace
    elif asked and body["namespace"] != asked:
        raise InputError(
            f"{document.source}: the job is in namespace '{body['namespace']}', but -n says "
            f"'{asked}'"
        )
    return body


def submit_document(session: Session, document: Document, *, is_dry: bool) -> Job | None:
    """Submit the job of a document, or ask where it would go, and say what came of it.

    Returns:
        The job; None of a dry run.

    Raises:
        NeverFits: If a dry run says so.
    """
    body = in_namespace(session, document)
    if is_dry:
        name = f"{body.get('namespace') or DEFAULT_NAMESPACE}/{body.get('name')}"
        write_verdict(session, f"job/{name}", session.client.dry_run(body))
        return None
    job = session.client.submit(body)
    if session.data_output is None:
        out(job_reference(job) + ("" if session.output is Output.NAME else " created"))
    return job


def job_reference(job: Job) -> str:
    """`job/research/llama-70b`, as other commands take it."""
    return clean(f"job/{job.get('namespace')}/{job.get('name')}")


def write_document(session: Session, value: object) -> None:
    """Write one of several objects as JSON or YAML."""
    if session.data_output is Output.YAML:
        out("---")
    if session.data_output is not None:
        write_object(value, session.data_output)


def write_verdict(session: Session, name: str, verdict: Verdict) -> None:
    """Write where a job would go, or why it would not.

    Raises:
        NeverFits: If it never would.
    """
    when = when_of(verdict)
    if session.data_output is not None:
        write_document(session, verdict)
    else:
        out(clean(f"{name} {HEADLINES.get(when, when)} (dry run)"))
        placement = verdict.get("placement")
        if placement is not None:
            pods = placement.get("pods") or []
            out(clean(f"  {count(len(pods), 'pod')}: {spread(pods)}"))
        elif message := verdict.get("message"):
            out(clean(f"  {message}"))
        write_pairs(verdict_pairs(verdict), indent="  ")
    if when == "never":
        raise NeverFits


def wait_for(session: Session, jobs: Sequence[Job], until: WaitFor, timeout_s: float) -> int:
    """Wait until every job is so far or has ended; the exit code that says how it went."""
    deadline_s = time.monotonic() + timeout_s
    worst = 0
    for job in jobs:
        try:
            left_s = max(0.0, deadline_s - time.monotonic())
            after = session.client.wait_job(
                job.get("namespace", ""),
                job.get("name", ""),
                until=until.value,
                timeout_s=left_s,
            )
        except WaitedInVain as error:
            worst = max(worst, complain(WaitedInVain(error.job, until, timeout_s)))
            after = error.job
        except ApiError as error:
            worst = max(worst, complain(error))
            continue
        if after.get("state") in {"failed", "cancelled"}:
            note(f"Error: {job_reference(after)} is {clean(after.get('state'))}")
            worst = max(worst, REFUSED)
        elif session.output is None and not worst:
            out(f"{job_reference(after)} {clean(after.get('state'))}")
        write_document(session, after)
    return worst
