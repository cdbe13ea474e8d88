"""The topology that the stored inventory makes, kept until the inventory changes."""

from dataclasses import dataclass
from functools import cache
from threading import Lock

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.schemas.spec import load_fabric, load_node_type, load_racks, load_sets, load_taints
from api.store.engine import Database
from api.store.jsontext import load_dict, load_list
from api.store.tables import cluster, node_types, nodes
from scheduler.model.node import NODE_LEVEL, Inventory, NodeRecord
from scheduler.topology.build import Built, build

DEFAULT_LEVELS = ("block", "leaf", "rack", NODE_LEVEL)


@dataclass(frozen=True, slots=True)
class Stored:
    """The inventory as it stands.

    Attributes:
        revision: Of the last change of anything in the map; 0 before the first import.
    """

    inventory: Inventory
    revision: int


class TopologyCache:
    """The topology of the newest inventory this process has seen."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._revision = -1
        self._built: Built | None = None

    def get(self, connection: Connection) -> Built:
        """The topology as the connection's snapshot has it."""
        revision = map_revision(connection)
        with self._lock:
            if self._built is None or self._revision != revision:
                built = build_stored(read_inventory(connection).inventory)
                if revision < self._revision:
                    return built  # an older snapshot; the newer one stays
                self._built, self._revision = built, revision
            return self._built

    def put(self, revision: int, built: Built) -> None:
        """Keep the topology that was built for an import."""
        with self._lock:
            if revision > self._revision:
                self._built, self._revision = built, revision


def keep_topology(db: Database, revision: int, built: Built) -> None:
    """Spare the next reader the building of what an import has built already."""
    _cache(db).put(revision, built)


def load_topology(db: Database) -> Built:
    """The topology as of now; built once for each revision of the inventory."""
    with db.read() as connection:
        return read_topology(db, connection)


def read_topology(db: Database, connection: Connection) -> Built:
    """The same on a connection that is open already."""
    return _cache(db).get(connection)


def _cache(db: Database) -> TopologyCache:
    found = db.cache.setdefault("topology", TopologyCache())
    if not isinstance(found, TopologyCache):
        raise TypeError("the cache entry 'topology' is of another kind")
    return found


def map_revision(connection: Connection) -> int:
    """Revision of the last change of anything in the map; 0 before the first import."""
    return connection.execute(sa.select(map_revision_select())).scalar_one()


def map_revision_select() -> ColumnElement[int]:
    """The same as a part of a larger statement."""
    return sa.func.coalesce(sa.select(cluster.c.revision).scalar_subquery(), 0)


def read_inventory(connection: Connection) -> Stored:
    """The stored inventory; without nodes and with the default levels before the first import.

    A node's places may name levels that the cluster no longer has; `build_stored` leaves them out.
    """
    row = connection.execute(sa.select(cluster)).one_or_none()
    if row is None:
        return Stored(Inventory("", DEFAULT_LEVELS, NODE_LEVEL, {}, ()), 0)
    types = {
        name: load_node_type(body)
        for name, body in connection.execute(sa.select(node_types.c.name, node_types.c.body))
    }
    columns = (nodes.c.name, nodes.c.type, nodes.c.places, nodes.c.labels, nodes.c.taints)
    rows = connection.execute(sa.select(*columns).order_by(nodes.c.name)).all()
    places_of = cache(load_places)  # neighbours have the same
    records = tuple(
        NodeRecord(name, kind, places_of(places), load_labels(labels), load_taints(taints))
        for name, kind, places, labels, taints in rows
    )
    inventory = Inventory(
        cluster=row.name,
        levels=tuple(str(level) for level in load_list(row.levels)),
        scale_up=row.scale_up,
        node_types=types,
        nodes=records,
        racks=load_racks(row.racks),
        sets=load_sets(row.sets),
        fabric=load_fabric(row.fabric),
    )
    return Stored(inventory, row.revision)


def build_stored(inventory: Inventory) -> Built:
    """The topology of an inventory whose types may be unused and so need not suit the levels.

    Its warnings are those of the building alone.
    """
    used = {node.type for node in inventory.nodes}
    types = {name: kind for name, kind in inventory.node_types.items() if name in used}
    return build(
        Inventory(
            cluster=inventory.cluster,
            levels=inventory.levels,
            scale_up=inventory.scale_up,
            node_types=types,
            nodes=inventory.nodes,
            racks=inventory.racks,
            sets=inventory.sets,
            fabric=inventory.fabric,
        )
    )


def load_places(text: str) -> dict[str, str | None]:
    """Declared places by level."""
    return {level: None if name is None else str(name) for level, name in load_dict(text).items()}


def load_labels(text: str) -> dict[str, str]:
    """Labels of a node."""
    return {key: str(value) for key, value in load_dict(text).items()} if text != "{}" else {}
