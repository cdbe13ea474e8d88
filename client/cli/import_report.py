"""What `yardctl apply` says of an import: warnings, counts, and what a dry run would change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from client.cli.table import Column, Table
from client.cli.text import clean, count, note, out
from client.shapes import FieldDiff, Imported

CLUSTER_ROWS_MAX = 20
"""Rows about levels, types and sets; a first import has one for each set."""


@dataclass(frozen=True, slots=True)
class Row:
    """One field of nodes that change alike; the first of several has their names."""

    change: str
    nodes: str
    field: str
    before: str | None
    after: str | None


def report(what: str, imported: Imported, *, is_dry: bool) -> None:
    """Write the outcome of one import.

    Args:
        what: What was imported: `inventory/demo`, `topology.conf`.
    """
    for warning in imported.get("warnings") or []:
        note(f"Warning: {clean(warning)}")
    counts = [f"{imported.get('created', 0)} created", f"{imported.get('updated', 0)} updated"]
    counts += [f"{imported.get('unchanged', 0)} unchanged", f"{imported.get('removed', 0)} removed"]
    if kept := imported.get("kept"):
        counts.append(f"{kept} kept for their pods")
    beside = len(imported.get("cluster_changes") or [])
    if beside and not any(imported.get(n) for n in ("created", "updated", "removed")):
        counts.append(f"{count(beside, 'change')} beside the nodes")
    out(f"{clean(what)}: nodes {', '.join(counts)}{' (dry run)' if is_dry else ''}")
    if is_dry:
        _table(imported)


def _table(imported: Imported) -> None:
    """What would change, nodes that change alike in one row."""
    rows = [*_cluster_rows(imported), *_node_rows(imported)]
    if not rows:
        return
    columns: list[Column[Row]] = [
        Column("CHANGE", lambda row: row.change),
        Column("NODES", lambda row: row.nodes),
        Column("FIELD", lambda row: row.field),
        Column("FROM", lambda row: row.before),
        Column("TO", lambda row: row.after),
    ]
    out("")
    Table(columns).write(rows)
    if more := imported.get("changes_left_out"):
        note(f"{more} more nodes would change")


def _cluster_rows(imported: Imported) -> Iterator[Row]:
    fields = imported.get("cluster_changes") or []
    if fields:
        yield from _rows("cluster", "", fields[:CLUSTER_ROWS_MAX])
    if len(fields) > CLUSTER_ROWS_MAX:
        yield Row("cluster", "", f"and {len(fields) - CLUSTER_ROWS_MAX} more", None, None)


def _node_rows(imported: Imported) -> Iterator[Row]:
    alike: dict[tuple[str, str], tuple[list[str], list[FieldDiff]]] = {}
    for node in imported.get("changes") or []:
        fields = node.get("fields") or []
        names, _ = alike.setdefault((node.get("change", ""), str(fields)), ([], fields))
        names.append(node.get("node", ""))
    for (change, _), (names, fields) in alike.items():
        if change == "created":
            yield Row(change, _named(names), "", None, _placed(fields))
        else:
            yield from _rows(change, _named(names), fields)


def _placed(fields: Sequence[FieldDiff]) -> str:
    """Type and places of new nodes, which had none before, in one cell."""
    return ", ".join(f"{field.get('field')} {field.get('to')}" for field in fields)


def _rows(change: str, nodes: str, fields: Sequence[FieldDiff]) -> Iterator[Row]:
    if not fields:
        yield Row(change, nodes, "", None, None)
    for field in fields:
        yield Row(change, nodes, field.get("field", ""), field.get("from"), field.get("to"))


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
