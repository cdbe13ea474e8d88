"""`yardctl spares`: what is kept for recovery, and what would be enough."""

import typer

from client.cli.columns import claim_columns
from client.cli.options import OutputOption, ServerOption
from client.cli.output import write_object
from client.cli.session import open_session
from client.cli.table import Column, Table, write_pairs
from client.cli.text import clean, count, duration, out
from client.fault_shapes import SpareLevel, SparePool, Spares


def spares(ctx: typer.Context, *, output: OutputOption = None, server: ServerOption = None) -> None:
    """Show nodes kept spare, and how many would be enough for 99 of 100 faults."""
    session = open_session(ctx, server=server, output=output)
    found = session.client.spares()
    if session.data_output is not None:
        write_object(found, session.data_output)
        return
    write_pairs(_pairs(found))
    levels: list[Column[SpareLevel]] = [
        Column("LEVEL", lambda level: level.get("level")),
        Column("DOMAINS", lambda level: level.get("domains")),
        Column("NODES", lambda level: level.get("nodes")),
        Column("NEED", lambda level: level.get("need")),
    ]
    if found.get("levels"):
        out("\nA pool in each domain would need, for its largest:")
        Table(levels, indent="  ").write(found.get("levels") or [])
    pools: list[Column[SparePool]] = [
        Column("LEVEL", lambda pool: pool.get("level")),
        Column("DOMAIN", lambda pool: pool.get("domain")),
        Column("NODES", lambda pool: pool.get("nodes")),
        Column("WANTED", lambda pool: pool.get("wanted")),
        Column("KEPT", lambda pool: pool.get("kept")),
        Column("LENT", lambda pool: pool.get("lent")),
        Column("FREE", lambda pool: pool.get("free")),
        Column("NEED", lambda pool: pool.get("need")),
    ]
    out("\nPools (spare_pool in the policy):")
    if found.get("pools"):
        Table(pools, indent="  ").write(found.get("pools") or [])
    else:
        out("  none")
    claims = [claim for claim in session.client.claims() if claim.get("why") == "spare"]
    lent = found.get("lent", 0)
    out(f"\nKept for single jobs{f', {lent} of them lent' if lent else ''}:")
    if claims:
        columns = [c for c in claim_columns(of_all=True) if not c.wide]
        Table(columns, indent="  ").write(claims)
    else:
        out("  none")


def _pairs(found: Spares) -> list[tuple[str, object]]:
    nodes, days = found.get("nodes", 0), found.get("span_s", 0.0) / 86_400
    rate = found.get("faults_per_node_day", 0.0)
    repair = duration(found.get("repair_s", 0.0))
    how = "assumed" if found.get("is_assumed") else f"mean of {found.get('repairs')}"
    faults = f"{found.get('faults', 0)} in {days:.1f} days on {count(nodes, 'node')}"
    return [
        ("Faults", clean(f"{faults}: {rate:.3g} a node and day")),
        ("Repair", clean(f"{repair} ({how})")),
        ("Need", f"{count(found.get('need', 0), 'node')} for the whole cluster (P99)"),
    ]
