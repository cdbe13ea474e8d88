"""`yardctl logs`: the end of what a pod wrote."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.text import clean, note, out
from client.errors import ApiError, InputError

if TYPE_CHECKING:
    from client.transport import Query

LINES = 100
TAIL_BYTES_MAX = 1024 * 1024
FOLLOW_S = 2.0
"""Between looks at what came."""

FOLLOW_BYTES = 64 * 1024
"""Looked at each time: who writes more in between is not shown whole."""

CONFLICT = 409
ENDED = {"succeeded", "failed", "stopped", "cancelled"}

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
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what comes, until the pod has ended.")
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
    follow: FollowOption = False,
    wait: WaitOption = 15.0,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Show the end of a pod's log, from the agent of its node; takes up to some seconds."""
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    if follow and session.data_output is not None:
        raise typer.BadParameter("--follow shows text; it has no other output")
    where = session.job_name(name)
    if rank is not None:
        where, process = _process_of(session, where, rank)
    asked = TAIL_BYTES_MAX if tail == 0 else min(TAIL_BYTES_MAX, tail * BYTES_PER_LINE)
    query: Query = {
        "process": process,
        "stream": "err" if stderr else "out",
        "tail_bytes": max(asked, FOLLOW_BYTES) if follow else asked,
        "attempt": attempt,
        "wait_s": wait,
    }
    found = session.client.pod_log(*where, query)
    if session.data_output is not None:
        write_object(found, session.data_output)
        return
    text = _from_a_line(found, query)
    if follow:
        text = text[: text.rfind("\n") + 1]
    lines = text.splitlines()
    _write(lines[-tail:] if tail else lines)
    if follow:
        _go_on(session, where, query, found, text)


def _from_a_line(found: dict[str, object], query: "Query") -> str:
    """A text without its first line, if that may begin in the middle."""
    text = str(found.get("text", ""))
    is_cut = len(text.encode()) >= int(str(query["tail_bytes"])) and text.count("\n") > 1
    return text[text.index("\n") + 1 :] if is_cut else text


def _write(lines: list[str]) -> None:
    for line in lines:
        out("\t".join(clean(cell) for cell in line.split("\t")))


def _go_on(
    session: Session,
    where: tuple[str, str],
    query: "Query",
    found: dict[str, object],
    shown: str,
) -> None:
    """Show what a pod writes from here on, until it has ended; of its next life too."""
    attempt = found.get("attempt")
    while found.get("state") not in ENDED:
        sys.stdout.flush()
        time.sleep(FOLLOW_S)
        try:
            found = session.client.pod_log(*where, query)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            # Its agent is silent for a while, or the pod is between two lives.
            note(clean(str(error)))
            continue
        if found.get("attempt") != attempt:
            attempt, shown = found.get("attempt"), ""
            note(f"-- attempt {attempt} --")
        text = _from_a_line(found, query)
        if found.get("state") not in ENDED:
            # The last line is shown when it is complete.
            text = text[: text.rfind("\n") + 1]
        _write(news_of(shown, text).splitlines())
        shown = text


def news_of(shown: str, text: str) -> str:
    """What of the end of a log comes after an end of it that was shown before.

    All of it, where so much came in between that nothing of that is left.
    """
    if text.startswith(shown):
        return text[len(shown) :]
    first = text[: text.find("\n") + 1]
    at = shown.find(first) if first else -1
    while at >= 0:
        rest = shown[at:]
        if text.startswith(rest):
            return text[len(rest) :]
        at = shown.find(first, at + 1)
    return text


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
