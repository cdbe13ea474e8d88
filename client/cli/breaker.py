"""`yardctl breaker`: whether lost members are moved, and having the scheduler act again."""

from typing import Annotated

import typer

from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import Session, open_session
from client.cli.table import write_pairs
from client.cli.text import age, clean, count, duration, note, out, until
from client.errors import ApiError
from client.fault_shapes import Breaker

OPEN = "open"
NAMES_SHOWN = 8
HOW_TO_RESET = "if these failures are real, `yardctl breaker --reset` lets gangs move"


def breaker(
    ctx: typer.Context,
    *,
    reset: Annotated[
        bool, typer.Option("--reset", help="Failures until now count no more.")
    ] = False,
    output: OutputOption = None,
    server: ServerOption = None,
) -> None:
    """Show the circuit breaker: open while more failed at once than is believed.

    Meanwhile nothing is moved and no gang in recovery loses its place.
    """
    session = open_session(ctx, server=server, output=output)
    if reset:
        at = session.client.reset_breaker()
        if session.data_output is None:
            out(clean(f"failures count from {at} on"))
    found = session.client.breaker()
    if session.data_output is not None:
        write_object(found, session.data_output)
        return
    write_pairs(_pairs(found))
    if found.get("state") == OPEN:
        note(HOW_TO_RESET)


def tell_if_open(session: Session) -> None:
    """A line for whoever looks at faults while nothing is moved."""
    try:
        found = session.client.breaker()
    except ApiError:
        # A service that does not tell, or not to this caller.
        return
    if found.get("state") == OPEN:
        note(clean(f"the circuit breaker is open: {_failing(found)}; see `yardctl breaker`"))


def _pairs(found: Breaker) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [("Breaker", found.get("state"))]
    if found.get("since"):
        pairs.append(("Since", clean(f"{age(found.get('since'))} ago")))
    pairs.append(("Failing", clean(_failing(found))))
    if failed := found.get("failed"):
        more = found.get("failing", 0) - NAMES_SHOWN
        text = " ".join(failed[:NAMES_SHOWN]) + (f" +{more}" if more > 0 else "")
        pairs.append(("Nodes", clean(text)))
    held = found.get("held") or {}
    gangs = count(held.get("jobs", 0), "gang")
    pairs.append(("Held", f"{gangs} with {count(held.get('gpus', 0), 'GPU')}"))
    if closes := found.get("closes_at"):
        pairs.append(("Closes", clean(f"by itself {until(closes)}")))
    if reset := found.get("reset_at"):
        pairs.append(("Reset", clean(f"{age(reset)} ago")))
    return pairs


def _failing(found: Breaker) -> str:
    share, limit = found.get("share", 0.0), found.get("limit", 0.0)
    within = duration(found.get("window_s", 0.0))
    nodes = f"{found.get('failing', 0)} of {count(found.get('nodes', 0), 'node')}"
    return f"{nodes} within {within} ({share:.1%}; opens above {limit:.1%})"
