"""Imports: an inventory merged with what is there, built whole before anything is written."""

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from api.schemas.spec import (
    dump_fabric,
    dump_node_type,
    dump_racks,
    dump_sets,
    dump_taints,
    load_node_type,
)
from api.store.bulk import among, insert_rows, update_rows, upsert_rows
from api.store.changes import changes_of
from api.store.claims import NOT_GONE
from api.store.engine import Database, Transaction, read_revision
from api.store.jsontext import dump_json
from api.store.merge import Held, Merged, merge
from api.store.tables import claims, cluster, node_types, node_usage, nodes
from api.store.topology import build_stored, keep_topology, map_revision, read_inventory
from api.store.views import ImportResult
from scheduler.importers.coverage import WHOLE, Coverage
from scheduler.importers.refusals import first_of
from scheduler.model.node import Inventory, NodeRecord, NodeType
from scheduler.model.resources import full_mask
from scheduler.topology.build import WARNINGS_MAX, Built

NAMES_SHOWN = 100
"""Names of nodes of one kind in the event of an import."""

RACK_LEVEL = "rack"
"""Level whose domains are bought as one, so that different nodes in one of them look wrong."""


def find_node_type(db: Database, name: str) -> NodeType | None:
    """A node type that the cluster has, whether or not any node is of it."""
    with db.read() as connection:
        query = sa.select(node_types.c.body).where(node_types.c.name == name)
        body = connection.execute(query).scalar_one_or_none()
    return None if body is None else load_node_type(body)


def export_inventory(db: Database) -> Inventory:
    """The whole inventory as it was given, contradictions included."""
    with db.read() as connection:
        return read_inventory(connection).inventory


def import_inventory(
    db: Database,
    inventory: Inventory,
    *,
    prune: bool,
    dry_run: bool,
    now_s: float,
    coverage: Coverage = WHOLE,
) -> ImportResult:
    """Merge an inventory with what is there; see `merge`. What is used stays with node and GPU.

    One import is one event, and no event when nothing changes.

    Raises:
        InventoryError: If the whole would make no topology; nothing is written then.
    """
    with db.read() as connection:
        stored = read_inventory(connection)
        merged = merge(
            stored.inventory, inventory, _held(connection), prune=prune, coverage=coverage
        )
        revision = read_revision(connection)
    # The slow part, seconds for 100,000 nodes, while others may still write.
    built = build_stored(merged.new)
    if dry_run or not merged.is_change:
        return _result(stored.inventory, merged, built, revision)
    with db.write(now_s) as tx:
        if map_revision(tx.connection) != stored.revision:
            stored = read_inventory(tx.connection)
        again = merge(
            stored.inventory, inventory, _held(tx.connection), prune=prune, coverage=coverage
        )
        if again.new != merged.new:
            built = build_stored(again.new)
        if again.is_change:
            _write(tx, again)
    if again.is_change:
        keep_topology(db, tx.revision, built)
    return _result(stored.inventory, again, built, tx.revision)


def _held(connection: Connection) -> dict[str, Held]:
    columns = (node_usage.c.node, node_usage.c.gpu_mask_used)
    amounts = (node_usage.c.cpu_milli_used, node_usage.c.memory_mib_used)
    query = sa.select(*columns, *amounts).where(node_usage.c.pods > 0)
    held = {name: Held(*numbers) for name, *numbers in connection.execute(query)}
    of_gangs = sa.select(claims.c.node, claims.c.gpu_mask).where(
        NOT_GONE, claims.c.job_uid.is_not(None)
    )
    for node, mask in connection.execute(of_gangs):
        found = held.get(node, Held(0, by="claims of gangs"))
        held[node] = replace(found, gpu_mask=found.gpu_mask | mask)
    return held


def _result(old: Inventory, merged: Merged, built: Built, revision: int) -> ImportResult:
    warnings = [*merged.new.warnings, *built.warnings, *_mixed_racks(built)]
    more = len(warnings) - WARNINGS_MAX
    return ImportResult(
        created=len(merged.created),
        updated=len(merged.updated),
        unchanged=merged.unchanged,
        removed=len(merged.removed),
        kept=len(merged.kept),
        warnings=(*warnings[:WARNINGS_MAX], *([f"and {more} warnings more"] if more > 0 else [])),
        revision=revision,
        changes=changes_of(old, merged),
    )


def _mixed_racks(built: Built) -> list[str]:
    if RACK_LEVEL not in built.topology.level_index:
        return []
    # networkx comes with it, which takes a fifth of a second and nothing but imports needs.
    from scheduler.topology.fabric_checks import mixed_types

    return first_of([found.message for found in mixed_types(built.topology, RACK_LEVEL)])


def _write(tx: Transaction, merged: Merged) -> None:
    revision = _emit(tx, merged)
    new = merged.new
    records = {node.name: node for node in new.nodes}
    types = [_type_row(kind) for kind in new.node_types.values()]
    upsert_rows(tx.connection, node_types, types)
    created = [records[name] for name in merged.created]
    updated = [records[name] for name in merged.updated]
    _give_way(tx.connection, merged, revision)
    insert_rows(tx.connection, nodes, [_node_row(node, revision) for node in created])
    update_rows(tx.connection, nodes, "name", [_node_row(node, revision) for node in updated])
    insert_rows(tx.connection, node_usage, [_usage_row(n, new.node_types[n.type]) for n in created])
    update_rows(
        tx.connection, node_usage, "node", [_usage_row(n, new.node_types[n.type]) for n in updated]
    )
    for column in (node_usage.c.node, nodes.c.name):
        gone = among(tx.connection, column, merged.removed)
        tx.connection.execute(sa.delete(column.table).where(gone))
    unused = sa.delete(node_types).where(node_types.c.name.not_in(list(new.node_types)))
    tx.connection.execute(unused)
    upsert_rows(tx.connection, cluster, [_cluster_row(new, revision)])


def _give_way(connection: Connection, merged: Merged, revision: int) -> None:
    """End what maintenance windows claim of nodes that change; the leader claims anew.

    Claims of gangs keep their nodes as they are, so only such claims, or those that are gone, can
    be in the way.
    """
    changing = among(connection, claims.c.node, merged.updated)
    of_people = sa.and_(changing, NOT_GONE, claims.c.job_uid.is_(None))
    connection.execute(sa.update(claims).where(of_people).values(gone=True, revision=revision))
    removed = among(connection, claims.c.node, merged.removed)
    connection.execute(sa.delete(claims).where(removed))


def _emit(tx: Transaction, merged: Merged) -> int:
    counts = {
        "created": len(merged.created),
        "updated": len(merged.updated),
        "removed": len(merged.removed),
    }
    names = {
        f"{word}_names": list(found[:NAMES_SHOWN])
        for word, found in (
            ("created", merged.created),
            ("updated", merged.updated),
            ("removed", merged.removed),
        )
        if found
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return tx.emit(
        "inventory.imported",
        subject_kind="cluster",
        name=merged.new.cluster,
        message=f"nodes: {said}" if said else "the map changed, its nodes did not",
        body={**counts, **names},
    )


def _type_row(kind: NodeType) -> dict[str, object]:
    return {"name": kind.name, "gpu": kind.gpu, "gpus": kind.gpus, "body": dump_node_type(kind)}


def _node_row(node: NodeRecord, revision: int) -> dict[str, object]:
    return {
        "name": node.name,
        "type": node.type,
        "places": dump_json(dict(node.places)),
        "labels": dump_json(dict(node.labels)),
        "taints": dump_taints(node.taints),
        "revision": revision,
    }


def _usage_row(node: NodeRecord, kind: NodeType) -> dict[str, object]:
    return {
        "node": node.name,
        "gpu_mask_all": full_mask(kind.gpus),
        "cpu_milli_all": kind.capacity.cpu_milli,
        "memory_mib_all": kind.capacity.memory_mib,
    }


def _cluster_row(new: Inventory, revision: int) -> dict[str, object]:
    return {
        "id": 1,
        "name": new.cluster,
        "levels": dump_json(list(new.levels)),
        "scale_up": new.scale_up,
        "fabric": dump_fabric(new.fabric),
        "racks": dump_racks(new.racks),
        "sets": dump_sets(new.sets),
        "revision": revision,
    }
