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

_OLD = f"""
    SELECT node, job_uid, state, gpu_mask, gpus, cpu_milli, memory_mib, -1 AS sign
      FROM old_pods WHERE state IN {LIVE}
"""
_NEW = f"""
    SELECT node, job_uid, state, gpu_mask, gpus, cpu_milli, memory_mib, 1 AS sign
      FROM new_pods WHERE state IN {LIVE}
"""

# Masks of one node are disjoint exactly when their sum equals their union. The number of rows that
# the UPDATE found tells whether it took everything: its WHERE is evaluated again on the newest row
# after waiting for another transaction, so two leaders at once cannot both pass.
_PG_LEDGER = """
    WITH change AS (
      SELECT node,
             coalesce(bit_or(gpu_mask) FILTER (WHERE sign < 0), 0) AS released,
             coalesce(bit_or(gpu_mask) FILTER (WHERE sign > 0), 0) AS taken,
             coalesce(sum(gpu_mask) FILTER (WHERE sign > 0), 0) AS taken_sum,
             sum(sign * cpu_milli) AS cpu, sum(sign * memory_mib) AS memory, sum(sign) AS pods
        FROM ({rows}) live GROUP BY node
        HAVING sum(sign * gpu_mask) <> 0 OR sum(sign * cpu_milli) <> 0
            OR sum(sign * memory_mib) <> 0 OR sum(sign) <> 0
            OR bit_or(gpu_mask) FILTER (WHERE sign < 0)
               IS DISTINCT FROM bit_or(gpu_mask) FILTER (WHERE sign > 0)
    ), done AS (
      UPDATE node_usage u SET
          gpu_mask_used = (u.gpu_mask_used & ~c.released) | c.taken,
          cpu_milli_used = u.cpu_milli_used + c.cpu,
          memory_mib_used = u.memory_mib_used + c.memory,
          pods = u.pods + c.pods
        FROM change c
        WHERE u.node = c.node AND (u.gpu_mask_used & ~c.released & c.taken) = 0
          AND c.taken_sum = c.taken
        RETURNING u.node
    )
    SELECT (SELECT array_agg(node ORDER BY node) FROM change),
           (SELECT array_agg(node ORDER BY node) FROM done) INTO wanted, got;
    IF wanted IS DISTINCT FROM got THEN
      RAISE EXCEPTION 'ledger: a GPU of node % is held already, or the node does not exist',
          (SELECT min(node) FROM unnest(wanted) AS node WHERE node <> ALL (coalesce(got, '{{}}')))
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""

_PG_COUNTS = """
    UPDATE jobs j SET
        pods_live = j.pods_live + c.live,
        pods_running = j.pods_running + c.running,
        gpus_held = j.gpus_held + c.gpus
      FROM (SELECT job_uid, sum(sign) AS live, sum(sign * gpus) AS gpus,
                   coalesce(sum(sign) FILTER (WHERE state = 'running'), 0) AS running
              FROM ({rows}) live GROUP BY job_uid) c
      WHERE j.uid = c.job_uid AND (c.live <> 0 OR c.running <> 0 OR c.gpus <> 0);
"""


def _function(name: str, rows: str) -> str:
    # The plan is kept from the first, often tiny, statement of a session: the ledger's rows are to
    # be found by their keys whatever the number of pods.
    return f"""
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE wanted text[]; got text[];
BEGIN
{_PG_LEDGER.format(rows=rows)}
{_PG_COUNTS.format(rows=rows)}
  RETURN NULL;
END $$
"""


POSTGRESQL_UP = [
    _function("podyard_pods_insert", _NEW),
    _function("podyard_pods_delete", _OLD),
    _function("podyard_pods_update", f"{_OLD} UNION ALL {_NEW}"),
    """
CREATE FUNCTION podyard_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ledger: this % of % is refused', TG_OP, TG_TABLE_NAME
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
    "CREATE TRIGGER pods_identity BEFORE UPDATE OF uid, job_uid ON pods FOR EACH ROW "
    "WHEN (OLD.uid <> NEW.uid OR OLD.job_uid <> NEW.job_uid) EXECUTE FUNCTION podyard_refuse()",
    "CREATE TRIGGER pods_truncate BEFORE TRUNCATE ON pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_refuse()",
    "CREATE TRIGGER node_usage_delete BEFORE DELETE ON node_usage FOR EACH ROW WHEN (OLD.pods > 0) "
    "EXECUTE FUNCTION podyard_refuse()",
]

POSTGRESQL_DOWN = [
    "DROP TRIGGER pods_insert ON pods",
    "DROP TRIGGER pods_delete ON pods",
    "DROP TRIGGER pods_update ON pods",
    "DROP TRIGGER pods_identity ON pods",
    "DROP TRIGGER pods_truncate ON pods",
    "DROP TRIGGER node_usage_delete ON node_usage",
    "DROP FUNCTION podyard_pods_insert()",
    "DROP FUNCTION podyard_pods_delete()",
    "DROP FUNCTION podyard_pods_update()",
    "DROP FUNCTION podyard_refuse()",
]
