"""`yardctl submit`: a job from flags like sbatch's, or from files, followed until it runs."""

import sys

import typer

from client.cli.complaints import complain
from client.cli.files import read_documents
from client.cli.job_flags import Asked, body_of
from client.cli.options import NamespaceOption, OutputOption, ServerOption
from client.cli.output import Output, write_object
from client.cli.progress import OVER, follow
from client.cli.session import REFUSED, Session, open_session
from client.cli.submit import (
    NeverFits,
    in_namespace,
    job_reference,
    write_verdict,
)
from client.cli.submit_options import (
    CommandArgument,
    ConstraintOption,
    CpOption,
    CpusOption,
    DpOption,
    EnvOption,
    EpOption,
    ExclusiveOption,
    GpuOption,
    GpusOption,
    GpusPerNodeOption,
    JobFiles,
    MaxRestartsOption,
    MemGibOption,
    NameOption,
    NodelistOption,
    NodesOption,
    NoPreemptOption,
    PpOption,
    PriorityOption,
    QueueOption,
    ShowOption,
    SparesOption,
    TestOnlyOption,
    TimeOption,
    TimeoutSOption,
    TpOption,
    Wait,
    WaitIfNeverOption,
    WaitOption,
    WithinOption,
)
from client.cli.text import clean, note, out
from client.errors import ApiError, InputError, WaitedInVain
from client.shapes import Job


def submit(
    ctx: typer.Context,
    command: CommandArgument = None,
    *,
    files: JobFiles = None,
    name: NameOption = None,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    gpus_per_node: GpusPerNodeOption = None,
    gpu: GpuOption = None,
    tp: TpOption = None,
    cp: CpOption = None,
    pp: PpOption = None,
    ep: EpOption = None,
    dp: DpOption = None,
    within: WithinOption = None,
    time: TimeOption = None,
    queue: QueueOption = None,
    priority: PriorityOption = None,
    nodelist: NodelistOption = None,
    constraint: ConstraintOption = None,
    env: EnvOption = None,
    cpus: CpusOption = None,
    mem_gib: MemGibOption = None,
    spares: SparesOption = None,
    max_restarts: MaxRestartsOption = None,
    exclusive: ExclusiveOption = False,
    no_preempt: NoPreemptOption = False,
    wait_if_never: WaitIfNeverOption = False,
    test_only: TestOnlyOption = False,
    show: ShowOption = False,
    wait: WaitOption = None,
    timeout_s: TimeoutSOption = 86400.0,
    output: OutputOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
) -> None:
    """Submit a job by flags as sbatch has them, and follow it until it runs.

    With -f, jobs of files. Ctrl-C ends the following alone; the job goes on.
    """
    session = open_session(ctx, server=server, namespace=namespace, output=output)
    axes = {"tp": tp, "cp": cp, "pp": pp, "ep": ep, "dp": dp}
    given = {axis: size for axis, size in axes.items() if size is not None}
    asked = Asked(
        name, nodes, gpus_per_node, gpus, gpu, given, within or (), time, queue, priority, nodelist,
        constraint or (), env or (), cpus, mem_gib, spares, max_restarts, exclusive, no_preempt,
        wait_if_never, command or (),
    )  # fmt: skip
    bodies = _bodies(session, asked, files)
    if show:
        for body in bodies:
            write_object(body, session.data_output or Output.YAML)
        return
    worst = 0
    for body in bodies:
        worst = max(worst, _one(session, body, _until(session, wait), timeout_s, is_dry=test_only))
    if worst:
        raise typer.Exit(worst)


def _bodies(session: Session, asked: Asked, files: list[str] | None) -> list[dict[str, object]]:
    if files:
        if asked != Asked():
            raise typer.BadParameter("a job is given by flags or by -f FILE, not by both")
        return [in_namespace(session, document) for document in read_documents(files)]
    if asked == Asked():
        raise typer.BadParameter(
            "say what is to run: yardctl submit -N 4 --time 2:00:00 -- python train.py; or -f FILE"
        )
    body = body_of(asked)
    if session.given_namespace:
        body = {"name": body["name"], "namespace": session.given_namespace} | body
    return [body]


def _until(session: Session, wait: Wait | None) -> Wait:
    if wait is not None:
        return wait
    is_watched = sys.stderr.isatty() and sys.stdout.isatty()
    return Wait.RUNNING if is_watched and session.output is None else Wait.NONE


def _one(
    session: Session, body: dict[str, object], until: Wait, timeout_s: float, *, is_dry: bool
) -> int:
    """Submit and follow one job; the exit code that says how it went."""
    try:
        if is_dry:
            name = f"job/{body.get('namespace') or session.namespace}/{body.get('name')}"
            write_verdict(session, name, session.client.dry_run(body))
            return 0
        job = session.client.submit(body)
    except NeverFits:
        return REFUSED
    except (ApiError, InputError) as error:
        return complain(error)
    if session.output is Output.NAME:
        out(job_reference(job))
    elif session.data_output is None:
        out(f"{job_reference(job)} created")
    if until is not Wait.NONE:
        return _followed(session, job, until, timeout_s)
    if session.data_output is not None:
        write_object(job, session.data_output)
    return 0


def _followed(session: Session, job: Job, until: Wait, timeout_s: float) -> int:
    try:
        done = follow(session.client, job, until=until.value, timeout_s=timeout_s)  # type: ignore[arg-type]  # none is no wait
    except WaitedInVain as error:
        return complain(error)
    except KeyboardInterrupt:
        note(
            f"\nIt goes on. See: yardctl explain {_name(job)}; end it: yardctl delete {_name(job)}"
        )
        raise
    if session.data_output is not None:
        write_object(done, session.data_output)
    if done.get("state") in OVER:
        note(f"Error: {job_reference(done)} is {clean(done.get('state'))}")
        note(f"  See: yardctl describe job {_name(done)}")
        return REFUSED
    if session.output is None:
        out(f"{job_reference(done)} {clean(done.get('state'))}")
    return 0


def _name(job: Job) -> str:
    return clean(f"{job.get('namespace')}/{job.get('name')}")
