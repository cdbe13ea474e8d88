"""`yardctl logs`: the end of what a pod wrote."""

from typing import Annotated

import typer

from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.text import clean, out
from client.errors import InputError

LINES = 100
TAIL_BYTES_MAX = 1024 * 1024
BYTES_PER_LINE = 512
"""Asked for for each line that is wanted; a log with longer lines shows fewer."""

NameArgument = Annotated[
    str,
    typer.Argument(metavar="POD", help="NAME, or NAMESPACE/NAME; with --rank of a job."),
]
RankOption = Annotated[
    int | None, typer.Option("--rank", min=0, help="POD is a job; the process of this rank.")
]
ProcessOption = Annotated[
    int, typer.Option("--process", min=0, help="Which process of the pod: its local rank.")
]
StderrOption = Annotated[bool, typer.Option("--stderr", help="What went to standard error.")]
TailOption = Annotated[
    int, typer.Option("--tail", metavar="LINES", min=0, help="Last lines; 0 = as many as it gets.")
]
AttemptOption = Annotated[
    int | None, typer.Option("--attempt", min=1, help="Of an earlier life of the pod.")
]
WaitOption = Annotated[
    float, typer.Option("--wait", metavar="S", min=1, max=60, help="Longest time for the agent.")
]


def logs(
    ctx: typer.Context,
    *,
    name: NameArgument,
    rank: RankOption = None,
    process: ProcessOption = 0,
    stderr: StderrOption = False,
    tail: TailOption = LINES,
    attempt: AttemptOption = None,
    wait: WaitOption = 15.0,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Show the end of a pod's log, from the agent of its node; takes up to some seconds."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    where = session.job_name(name)
    if rank is not None:
        where, process = _process_of(session, where, rank)
    asked = TAIL_BYTES_MAX if tail == 0 else min(TAIL_BYTES_MAX, tail * BYTES_PER_LINE)
    query = {
        "process": process,
        "stream": "err" if stderr else "out",
        "tail_bytes": asked,
        "attempt": attempt,
        "wait_s": wait,
    }
    found = session.client.pod_log(*where, query)
    if session.data_output is not None:
        write_object(found, session.data_output)
        return
    text = str(found.get("text", ""))
    lines = text.splitlines()
    if len(text.encode()) >= asked and len(lines) > 1:
        del lines[0]  # begins in the middle
    for line in lines[-tail:] if tail else lines:
        out("\t".join(clean(cell) for cell in line.split("\t")))


def _process_of(session: Session, job: tuple[str, str], rank: int) -> tuple[tuple[str, str], int]:
    """The pod that has a rank of a job, and which of its processes that is.

    Raises:
        InputError: If no pod has it.
    """
    for pod in session.client.pods(namespace=job[0], job=job[1]):
        ranks = pod.get("ranks") or []
        if rank in ranks:
            return (str(pod.get("namespace")), str(pod.get("name"))), ranks.index(rank)
    raise InputError(f"no pod of job '{job[0]}/{job[1]}' has rank {rank}")
