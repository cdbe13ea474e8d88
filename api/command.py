"""The `podyard` command: run the service and look after its database."""

import gc
import json
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from api.settings import Role, Settings, read_settings
from api.store.errors import StartupError
from api.tokens import app as token_app
from api.tracing import TracingError, traced
from api.transfer.commands import add_commands
from scheduler.policy import PolicyError

if TYPE_CHECKING:
    from api.clock import Clock
    from api.loop.outbox import Outbox
    from api.loop.runner import Runner
    from api.main import App
    from api.metrics import Metrics
    from api.store.engine import Database

app = typer.Typer(
    name="podyard",
    help="Podyard places all-or-nothing training jobs on GPU clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

SWITCH_S = 0.001
"""How long a thread keeps the interpreter while another waits; requests must stay quick."""

COLLECT_AFTER = (700, 100, 70)
"""Objects made before the youngest are looked through for what can go, and how often that is done
before the older are, and these before all. A gang that comes and goes leaves one behind that is not
gone by itself; with Python's 700, 10, 10 all were looked through every second, for 0.1 s each time.
"""

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///FILE or postgresql://...; default $PODYARD_DATABASE_URL, $DATABASE_URL, "
        "else sqlite:///podyard.db.",
    ),
]


@app.command()
def serve(
    *,
    database_url: DatabaseUrl = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="0 = any free one.", min=0, max=65535)] = None,
    role: Annotated[Role | None, typer.Option(help="Parts of the service to run.")] = None,
    clock: Annotated[
        str | None, typer.Option(help="system, or manual: time moves only when told to (tests).")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its private key, PEM.")] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(help="Authority of agents' certificates, PEM.")
    ] = None,
    auth: Annotated[
        str | None, typer.Option(help="auto (once there was a token), required or off.")
    ] = None,
    oidc_issuer: Annotated[str | None, typer.Option(help="Identity provider, https://...")] = None,
    oidc_audience: Annotated[str | None, typer.Option(help="Of its tokens for here.")] = None,
    oidc_jwks_file: Annotated[str | None, typer.Option(help="Its keys.")] = None,
    oidc_jwks_url: Annotated[str | None, typer.Option(help="Where its keys are.")] = None,
    oidc_roles_file: Annotated[str | None, typer.Option(help="Who of it may do what.")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, text or json.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine though without tokens.")
    ] = False,
    migrate_first: Annotated[
        bool, typer.Option("--migrate", help="Migrate PostgreSQL first, as SQLite always is.")
    ] = False,
) -> None:
    """Run the service until it is told to end."""
    given = {
        "database_url": database_url,
        "host": host,
        "port": port,
        "role": role,
        "clock": clock,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "auth": auth,
        "oidc_issuer": oidc_issuer,
        "oidc_audience": oidc_audience,
        "oidc_jwks_file": oidc_jwks_file,
        "oidc_jwks_url": oidc_jwks_url,
        "oidc_roles_file": oidc_roles_file,
        "log_format": log_format,
        "insecure": insecure or None,
    }
    try:
        _serve(_settings(given), migrate_first=migrate_first)
    except (StartupError, TracingError) as error:
        _fail(str(error))


@app.command()
def migrate(
    database_url: DatabaseUrl = None,
    to: Annotated[str, typer.Option(help="Version; `base` empties the database.")] = "head",
) -> None:
    """Bring a database to this program's schema."""
    from api.store.schema import Standing, known_versions, standing_of
    from api.store.schema import migrate as run

    settings = _settings({"database_url": database_url})
    if to not in {"head", "base", *known_versions()}:
        _fail(f"there is no version '{to}'; there are base, {', '.join(known_versions())}, head")
    try:
        run(settings.database_url, to)
        is_newer = to != "base" and standing_of(settings.database_url) is Standing.NEWER
    except StartupError as error:
        _fail(str(error))
    head = known_versions()[-1]
    if is_newer:
        typer.echo(f"the database is newer than {head}, and this program may use it as it is")
    else:
        typer.echo(f"the database is at {head if to == 'head' else to}")


@app.command()
def doctor(
    database_url: DatabaseUrl = None,
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="Put right what follows from pods and the log.")
    ] = False,
) -> None:
    """Compare the ledger with live pods, these with the decision log; claims, nodes with faults.

    Status 1 if anything differs.
    """
    from api.loop.promised import promised_by_log
    from api.store.ledger import audit_ledger
    from api.store.mending import advice, mend
    from api.store.schema import check_file, open_database

    try:
        with closing(open_database(_settings({"database_url": database_url}).database_url)) as db:
            check_file(db)
            promised = promised_by_log(db)
            for line in mend(db, now_s=time.time(), promised=promised) if fix else ():
                typer.echo(f"mended: {line}")
            audit = audit_ledger(db, promised)
    except StartupError as error:
        _fail(str(error))
    for line in audit.lines:
        typer.echo(line)
    verdict = "the ledger agrees" if audit.is_clean else "the ledger differs"
    typer.echo(
        f"{verdict}: {audit.pods} live pods and {audit.claims} claims on {audit.nodes} nodes, "
        f"revision {audit.revision}"
    )
    if audit.is_clean:
        return
    for line in advice(audit) if fix else ("podyard doctor --fix mends what it can",):
        typer.echo(f"then: {line}")
    raise typer.Exit(1)


@app.command()
def replay(
    database_url: DatabaseUrl = None,
    at: Annotated[
        int | None, typer.Option(help="Revision it was decided on, or that its commit wrote.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another policy: field=value, as JSON; may be given again."),
    ] = None,
) -> None:
    """Decide again what was decided on a revision, or all there is a log of; status 1 if other.

    With another policy, the differences are what it would have changed of each decision by itself.
    """
    from api.loop.replay import replay as repeat
    from api.loop.replay import replay_all
    from api.store.errors import NotFound
    from api.store.schema import open_database

    count = differing = 0
    other = dict(map(_field, changes or ()))
    try:
        with closing(open_database(_settings({"database_url": database_url}).database_url)) as db:
            for done in replay_all(db, other) if at is None else (repeat(db, at, other),):
                count += 1
                differing += bool(done.differences)
                if at is not None or done.differences:
                    typer.echo("\n  ".join((str(done), *done.differences)))
    except (StartupError, NotFound, PolicyError) as error:
        typer.echo(f"podyard: {error}", err=True)
        raise typer.Exit(2) from None
    if at is None:
        typer.echo(f"{count} decisions, {count - differing} identical")
    if differing:
        raise typer.Exit(1)


@app.command()
def simulate(
    *,
    trace: Annotated[Path | None, typer.Option(help="File with a job trace (CSV).")] = None,
    workload: Annotated[
        str | None, typer.Option(help="Generated jobs: philly, helios, kalos, seren or gangs.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Nodes of 8 GPUs.")] = 256,
    load: Annotated[
        float | None,
        typer.Option(help="Work offered / GPU time there is; default 0.95, or as in the trace."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Jobs to generate, default 2000; of a trace, at most.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same jobs.")] = 1,
    policy: Annotated[
        str,
        typer.Option(
            help="One or more of podyard, podyard-shortest, slurm, kueue, volcano, fifo, random, "
            "sjf; comma-separated."
        ),
    ] = "podyard",
    estimate_factor: Annotated[
        float, typer.Option(help="Declared durations are off by up to this factor; 0 = none.")
    ] = 1.0,
    faults: Annotated[bool, typer.Option("--faults", help="Nodes fail and come back.")] = False,
    out: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON.")] = False,
) -> None:
    """Run a workload through one or more policies and compare them; needs no service."""
    from api.simulate import Asked, run
    from scheduler.errors import SchedulerError

    policies = tuple(filter(None, (name.strip() for name in policy.split(","))))
    try:
        run(
            Asked(
                trace, workload, nodes, load, jobs, seed, policies, out, estimate_factor, faults,
                as_json,
            )
        )  # fmt: skip
    except (SchedulerError, OSError) as error:
        _fail(str(error))


@app.command()
def version() -> None:
    """Print the version and the schema it knows."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    from api.store.schema import known_versions

    try:
        found = installed("podyard")
    except PackageNotFoundError:
        found = "(not installed)"
    typer.echo(f"podyard {found}, schema {known_versions()[-1]}")


add_commands(app)
app.add_typer(token_app)


def main() -> None:
    """Entry point of the `podyard` script."""
    app()


def _field(text: str) -> tuple[str, object]:
    """`name=value` of a command line."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _settings(given: Mapping[str, object]) -> Settings:
    """Flags over environment over defaults."""
    try:
        return read_settings(given)
    except ValueError as error:
        _fail(str(error))


def _serve(settings: Settings, *, migrate_first: bool) -> None:
    # Code and what it builds at start are there to stay: not worth a collection while they come.
    gc.disable()
    from api.http.gating import check_exposed, check_files
    from api.log import configure_logs, get_logger
    from api.main import create_app
    from api.metrics import Metrics

    check_files(settings)
    with (
        closing(_listen(settings)) as listener,
        closing(_open(settings, migrate_first=migrate_first)) as database,
    ):
        configure_logs(settings.log_format, settings.log_level)
        check_exposed(settings, database)
        clock, metrics = _clock(settings, database), Metrics()
        runner = _runner(settings, database, clock, metrics)
        get_logger(__name__).info(
            "serving",
            url=_url(settings, listener),
            role=settings.role.value,
            database=database.engine.dialect.name,
            clock=settings.clock,
        )
        served = create_app(settings, database, clock, runner, metrics)
        with traced(settings.otel_endpoint):
            gc.freeze()
            gc.set_threshold(*COLLECT_AFTER)
            gc.enable()
            _run(served, settings, listener)


def _listen(settings: Settings) -> socket.socket:
    """Take the port first: a second service on it must fail before it touches anything."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise StartupError(f"cannot listen on {where}: {error.strerror or error}") from None
    return listener


def _open(settings: Settings, *, migrate_first: bool) -> "Database":
    from api.store.schema import Standing, migrate, open_database, standing_of

    url = settings.database_url
    is_sqlite = url.startswith("sqlite")
    if (is_sqlite or migrate_first) and standing_of(url) in {Standing.EMPTY, Standing.OLDER}:
        migrate(url)
    return open_database(url, settings.database_connections)


def _clock(settings: Settings, database: "Database") -> "Clock":
    from api.clock import MANUAL_START_S, ManualClock, SystemClock
    from api.store.clock_row import load_clock, save_clock

    if settings.clock == "system":
        return SystemClock()
    stood_at = load_clock(database)
    return ManualClock(
        MANUAL_START_S if stood_at is None else stood_at, lambda now_s: save_clock(database, now_s)
    )


def _runner(
    settings: Settings, database: "Database", clock: "Clock", metrics: "Metrics"
) -> "Runner | None":
    if settings.role is Role.API:
        return None
    from api.clock import ManualClock
    from api.loop.runner import Runner
    from api.store.decisions import DecisionLog

    outbox = _outbox(settings, database, clock, metrics)

    log = None
    if settings.decision_log:
        log = DecisionLog(
            database, keep=settings.decision_history, keep_bytes=settings.decision_bytes
        )
    runner = Runner(
        database,
        clock,
        metrics=metrics,
        event_history=settings.event_history,
        job_history_s=settings.job_history_s,
        decisions=log,
        outbox=outbox,
    )
    if isinstance(clock, ManualClock):
        clock.on_advance(runner.wake)
    return runner


def _outbox(
    settings: Settings, database: "Database", clock: "Clock", metrics: "Metrics"
) -> "Outbox":
    from api.hooks.configured import sender_by
    from api.http.gating import is_asking
    from api.loop.outbox import Outbox

    return Outbox(
        database,
        clock,
        sender_by(settings, lambda: is_asking(settings, database)),
        concurrency=settings.hook_concurrency,
        tries=settings.hook_tries,
        history_s=settings.hook_history_s,
        metrics=metrics,
    )


def _run(asgi: "App", settings: Settings, listener: socket.socket) -> None:
    import uvicorn

    from api.http.certificates import client_certificates
    from api.http.connection import Limits, bounded, room_for
    from api.http.serving import Server

    sys.setswitchinterval(SWITCH_S)
    limits = Limits(
        room_for(settings.connections_max), settings.head_timeout_s, settings.body_timeout_s
    )
    options = client_certificates(settings.tls_client_ca)
    # It knows of certificates as well.
    options["http"] = bounded(limits)
    config = uvicorn.Config(
        asgi,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=3,
        # Dashboards and agents ask again after some seconds; a new connection each time costs more.
        timeout_keep_alive=30,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        **options,
        server_header=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal again once it has shut down; the rest is to be closed as well.
        signal.signal(number, lambda *_: None)
    Server(config, asgi.service).run(sockets=[listener])


def _url(settings: Settings, listener: socket.socket) -> str:
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _fail(message: str) -> NoReturn:
    typer.echo(f"podyard: {message}", err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    main()
