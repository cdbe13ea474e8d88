"""Triggers of the first schema: the ledger follows the pods and gives nothing twice.

Frozen like the migration that uses it. A live pod takes its GPUs, CPUs and memory in `node_usage`;
a pod that ends or moves gives them back. What the update of a ledger row cannot refuse by its
checks (bits beyond the node's GPUs, CPUs or memory beyond capacity) the trigger refuses: a GPU that
is held already, and a node that is not there. Never one row per GPU.

SQLite fires once for each row, so within one statement the order of rows counts: free first, then
take. PostgreSQL fires once for each statement with all its rows, and releases before it takes.
"""

LIVE = "('bound', 'running', 'terminating', 'lost')"

_SQLITE_TAKE = f"""
    SELECT RAISE(ABORT, 'ledger: the node of a live pod does not exist')
      WHERE NEW.state IN {LIVE} AND NOT EXISTS (SELECT 1 FROM node_usage WHERE node = NEW.node);
    SELECT RAISE(ABORT, 'ledger: a GPU of this node is held already')
      FROM node_usage
      WHERE NEW.state IN {LIVE} AND node = NEW.node AND (gpu_mask_used & NEW.gpu_mask) <> 0;
    UPDATE node_usage SET
        gpu_mask_used = gpu_mask_used | NEW.gpu_mask,
        cpu_milli_used = cpu_milli_used + NEW.cpu_milli,
        memory_mib_used = memory_mib_used + NEW.memory_mib,
        pods = pods + 1
      WHERE node = NEW.node AND NEW.state IN {LIVE};
"""

_SQLITE_RELEASE = f"""
    UPDATE node_usage SET
        gpu_mask_used = gpu_mask_used & ~OLD.gpu_mask,
        cpu_milli_used = cpu_milli_used - OLD.cpu_milli,
        memory_mib_used = memory_mib_used - OLD.memory_mib,
        pods = pods - 1
      WHERE node = OLD.node AND OLD.state IN {LIVE};
"""

_SQLITE_COUNT_NEW = f"""
    UPDATE jobs SET
        pods_live = pods_live + (NEW.state IN {LIVE}),
        pods_running = pods_running + (NEW.state = 'running'),
        gpus_held = gpus_held + (NEW.state IN {LIVE}) * NEW.gpus
      WHERE uid = NEW.job_uid;
"""

_SQLITE_COUNT_OLD = f"""
    UPDATE jobs SET
        pods_live = pods_live - (OLD.state IN {LIVE}),
        pods_running = pods_running - (OLD.state = 'running'),
        gpus_held = gpus_held - (OLD.state IN {LIVE}) * OLD.gpus
      WHERE uid = OLD.job_uid;
"""

_SQLITE_HELD_CHANGED = f"""
    (OLD.state IN {LIVE}) <> (NEW.state IN {LIVE}) OR OLD.node <> NEW.node
    OR OLD.gpu_mask <> NEW.gpu_mask OR OLD.cpu_milli <> NEW.cpu_milli
    OR OLD.memory_mib <> NEW.memory_mib
"""

SQLITE_UP = [
    f"CREATE TRIGGER pods_insert AFTER INSERT ON pods BEGIN {_SQLITE_TAKE} {_SQLITE_COUNT_NEW} END",
    "CREATE TRIGGER pods_delete AFTER DELETE ON pods "
    f"BEGIN {_SQLITE_RELEASE} {_SQLITE_COUNT_OLD} END",
    f"CREATE TRIGGER pods_move AFTER UPDATE ON pods WHEN {_SQLITE_HELD_CHANGED} "
    f"BEGIN {_SQLITE_RELEASE} {_SQLITE_TAKE} END",
    "CREATE TRIGGER pods_count AFTER UPDATE ON pods "
    "WHEN OLD.state <> NEW.state OR OLD.gpus <> NEW.gpus "
    f"BEGIN {_SQLITE_COUNT_OLD} {_SQLITE_COUNT_NEW} END",
    "CREATE TRIGGER pods_identity BEFORE UPDATE OF uid, job_uid ON pods "
    "WHEN OLD.uid <> NEW.uid OR OLD.job_uid <> NEW.job_uid "
    "BEGIN SELECT RAISE(ABORT, 'ledger: a pod keeps its uid and its job'); END",
    "CREATE TRIGGER node_usage_delete BEFORE DELETE ON node_usage WHEN OLD.pods > 0 "
    "BEGIN SELECT RAISE(ABORT, 'ledger: a node that holds live pods stays'); END",
]

SQLITE_DOWN = [
    f"DROP TRIGGER {name}"
    for name in (
        "pods_insert",
        "pods_delete",
        "pods_move",
        "pods_count",
        "pods_identity",
        "node_usage_delete",
    )
]

# Masks of one node are disjoint exactly when their sum equals their union. The count of rows that
# the UPDATE found tells whether it took everything: its WHERE is evaluated again on the newest row
# after waiting for another transaction, so two leaders at once cannot both pass.
_PG_TAKE = """
    SELECT count(*), count(done.node), min(taken.node) FILTER (WHERE done.node IS NULL)
      INTO wanted, got, culprit FROM taken LEFT JOIN done USING (node);
    IF wanted <> got THEN
      RAISE EXCEPTION 'ledger: a GPU of node % is held already, or the node does not exist', culprit
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""

_PG_TAKEN = """
      SELECT node, bit_or(gpu_mask) AS mask, sum(gpu_mask) AS mask_sum, sum(cpu_milli) AS cpu,
             sum(memory_mib) AS memory, count(*) AS n
        FROM {rows} GROUP BY node ORDER BY node
"""

_PG_DONE = """
      UPDATE node_usage u SET
          gpu_mask_used = u.gpu_mask_used | t.mask,
          cpu_milli_used = u.cpu_milli_used + t.cpu,
          memory_mib_used = u.memory_mib_used + t.memory,
          pods = u.pods + t.n
        FROM taken t
        WHERE u.node = t.node AND (u.gpu_mask_used & t.mask) = 0 AND t.mask_sum = t.mask
        RETURNING u.node
"""

_PG_RELEASE = """
    UPDATE node_usage u SET
        gpu_mask_used = u.gpu_mask_used & ~r.mask,
        cpu_milli_used = u.cpu_milli_used - r.cpu,
        memory_mib_used = u.memory_mib_used - r.memory,
        pods = u.pods - r.n
      FROM (SELECT node, bit_or(gpu_mask) AS mask, sum(cpu_milli) AS cpu, sum(memory_mib) AS memory,
                   count(*) AS n FROM {rows} GROUP BY node ORDER BY node) r
      WHERE u.node = r.node;
"""

_PG_COUNT = """
    UPDATE jobs j SET
        pods_live = j.pods_live {sign} c.live,
        pods_running = j.pods_running {sign} c.running,
        gpus_held = j.gpus_held {sign} c.gpus
      FROM (SELECT job_uid, count(*) FILTER (WHERE state IN {live}) AS live,
                   count(*) FILTER (WHERE state = 'running') AS running,
                   coalesce(sum(gpus) FILTER (WHERE state IN {live}), 0) AS gpus
              FROM {rows} GROUP BY job_uid ORDER BY job_uid) c
      WHERE j.uid = c.job_uid AND (c.live <> 0 OR c.running <> 0 OR c.gpus <> 0);
"""

_PG_MOVED = f"""
    (SELECT {{side}}.* FROM old_pods o JOIN new_pods n USING (uid)
      WHERE {{side}}.state IN {LIVE} AND (
        (o.state IN {LIVE}) <> (n.state IN {LIVE}) OR o.node <> n.node OR o.gpu_mask <> n.gpu_mask
        OR o.cpu_milli <> n.cpu_milli OR o.memory_mib <> n.memory_mib)) moved
"""

_PG_COUNT_CHANGES = f"""
    UPDATE jobs j SET
        pods_live = j.pods_live + c.live,
        pods_running = j.pods_running + c.running,
        gpus_held = j.gpus_held + c.gpus
      FROM (SELECT n.job_uid,
                   sum((n.state IN {LIVE})::int - (o.state IN {LIVE})::int) AS live,
                   sum((n.state = 'running')::int - (o.state = 'running')::int) AS running,
                   sum((n.state IN {LIVE})::int * n.gpus
                       - (o.state IN {LIVE})::int * o.gpus) AS gpus
              FROM old_pods o JOIN new_pods n USING (uid)
              WHERE o.state <> n.state OR o.gpus <> n.gpus
              GROUP BY n.job_uid ORDER BY n.job_uid) c
      WHERE j.uid = c.job_uid AND (c.live <> 0 OR c.running <> 0 OR c.gpus <> 0);
"""


def _take(rows: str) -> str:
    statement = f"WITH taken AS ({_PG_TAKEN.format(rows=rows)}), done AS ({_PG_DONE})"
    return f"{statement} {_PG_TAKE.strip()}"


def _function(name: str, body: str) -> str:
    return f"""
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE wanted bigint; got bigint; culprit text;
BEGIN
{body}
  RETURN NULL;
END $$
"""


_LIVE_NEW = f"(SELECT * FROM new_pods WHERE state IN {LIVE}) rows_taken"
_LIVE_OLD = f"(SELECT * FROM old_pods WHERE state IN {LIVE}) rows_released"

POSTGRESQL_UP = [
    _function(
        "podyard_pods_insert",
        _take(_LIVE_NEW) + _PG_COUNT.format(sign="+", live=LIVE, rows="new_pods"),
    ),
    _function(
        "podyard_pods_delete",
        _PG_RELEASE.format(rows=_LIVE_OLD) + _PG_COUNT.format(sign="-", live=LIVE, rows="old_pods"),
    ),
    _function(
        "podyard_pods_update",
        """
    IF EXISTS (SELECT 1 FROM new_pods n LEFT JOIN old_pods o USING (uid)
                WHERE o.job_uid IS DISTINCT FROM n.job_uid) THEN
      RAISE EXCEPTION 'ledger: a pod keeps its uid and its job'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""
        + _PG_RELEASE.format(rows=_PG_MOVED.format(side="o"))
        + _take(_PG_MOVED.format(side="n"))
        + _PG_COUNT_CHANGES,
    ),
    """
CREATE FUNCTION podyard_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ledger: % of % is refused', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation';
END $$
""",
    "CREATE TRIGGER pods_insert AFTER INSERT ON pods REFERENCING NEW TABLE AS new_pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_pods_insert()",
    "CREATE TRIGGER pods_delete AFTER DELETE ON pods REFERENCING OLD TABLE AS old_pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_pods_delete()",
    "CREATE TRIGGER pods_update AFTER UPDATE ON pods "
    "REFERENCING OLD TABLE AS old_pods NEW TABLE AS new_pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_pods_update()",
    "CREATE TRIGGER pods_truncate BEFORE TRUNCATE ON pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_refuse()",
    "CREATE TRIGGER node_usage_delete BEFORE DELETE ON node_usage FOR EACH ROW WHEN (OLD.pods > 0) "
    "EXECUTE FUNCTION podyard_refuse()",
]

POSTGRESQL_DOWN = [
    "DROP TRIGGER pods_insert ON pods",
    "DROP TRIGGER pods_delete ON pods",
    "DROP TRIGGER pods_update ON pods",
    "DROP TRIGGER pods_truncate ON pods",
    "DROP TRIGGER node_usage_delete ON node_usage",
    "DROP FUNCTION podyard_pods_insert()",
    "DROP FUNCTION podyard_pods_delete()",
    "DROP FUNCTION podyard_pods_update()",
    "DROP FUNCTION podyard_refuse()",
]
