"""`yardctl get jobs -w`: jobs again, each time they change."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence

from client.cli.columns import job_columns
from client.cli.output import Output, json_text, yaml_text
from client.cli.session import Session
from client.cli.table import Table
from client.cli.text import clean, out
from client.http import Client
from client.shapes import Job

POLL_S = 1.0


def changed_jobs(
    client: Client, read: Callable[[], Sequence[Job]], pause: Callable[[], None]
) -> Iterator[Sequence[Job]]:
    """All jobs, then for ever those that changed; the jobs are read only when something did.

    Args:
        read: The jobs that are watched, as they are now.
        pause: Waits between two looks at the revision; ends the watch by an exception.
    """
    seen: dict[str, int] = {}
    known = -1
    while True:
        revision = client.revision()
        if revision != known:
            known = revision
            jobs = read()
            changed = [job for job in jobs if seen.get(_uid(job)) != job.get("revision")]
            seen = {_uid(job): job.get("revision", 0) for job in jobs}
            if changed:
                yield changed
        pause()


def _uid(job: Job) -> str:
    return job.get("uid") or f"{job.get('namespace')}/{job.get('name')}"


def watch_jobs(
    session: Session,
    names: Sequence[str],
    *,
    queue: str | None,
    state: str | None,
    headed: bool,
    pause: Callable[[], None] = lambda: time.sleep(POLL_S),
) -> None:
    """Write jobs as they change, until interrupted."""
    wanted = {session.split_name(name) for name in names}
    # A job that leaves the state asked for is worth a last line, so the service is not asked to
    # filter by it; whoever has been shown once stays watched.
    shown: set[str] = set()

    def read() -> list[Job]:
        namespace = None if wanted else session.list_namespace
        jobs = [
            job
            for job in session.client.jobs(namespace=namespace, queue=queue)
            if (not wanted or (job.get("namespace"), job.get("name")) in wanted)
            and (state is None or job.get("state") == state or _uid(job) in shown)
        ]
        shown.update(map(_uid, jobs))
        return jobs

    columns = [
        column
        for column in job_columns(with_namespace=session.options.all_namespaces)
        if session.is_wide or not column.wide
    ]
    table = Table(columns, headed=headed)
    for jobs in changed_jobs(session.client, read, pause):
        _write(session, table, jobs)


def _write(session: Session, table: Table[Job], jobs: Sequence[Job]) -> None:
    if session.data_output is None and session.output is not Output.NAME:
        table.write(jobs)
    for job in jobs:
        if session.output is Output.NAME:
            out(clean(f"job/{job.get('namespace')}/{job.get('name')}"))
        elif session.output is Output.JSON:
            out(json_text(job, indent=None))
        elif session.output is Output.YAML:
            out("---\n" + yaml_text(job))
    # Whoever reads a watch through a pipe wants each change when it happens.
    sys.stdout.flush()
