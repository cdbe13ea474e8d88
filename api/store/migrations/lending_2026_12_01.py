"""Triggers that let gangs which can leave at once use GPUs that are kept spare for others.

Frozen like the migration that uses it. What claims for preemption and recovery hold goes to nobody
else, as before. What a spare or a pool holds may be taken by a pod of a job that may be evicted and
has no hook to be asked first: such a gang is told to stop in the transaction that gives the place
away.
"""

from api.store.migrations import claims_2026_12_01 as before
from api.store.migrations.claims_2026_12_01 import LIVE

HELD = "('preemption', 'recovery', 'spare', 'pool')"
LENT = "('spare', 'pool')"
"""Those of them that may be lent."""

_SQLITE_POD = f"""
    SELECT RAISE(ABORT, 'ledger: a GPU of this node is claimed by another gang')
      FROM claims c
      WHERE c.node = NEW.node AND NOT c.gone AND c.why IN {HELD} AND c.job_uid IS NOT NEW.job_uid
        AND (c.gpu_mask & NEW.gpu_mask) <> 0
        AND (c.why NOT IN {LENT} OR NOT EXISTS (
          SELECT 1 FROM jobs j WHERE j.uid = NEW.job_uid
            AND json_extract(j.spec, '$.preemptible') = 1
            AND json_extract(j.spec, '$.grace_s') IS NULL));
"""

SQLITE_DROP = before.SQLITE_DOWN

SQLITE_UP = [
    *(up for up in before.SQLITE_UP if "pods_vs_claims" not in up),
    f"CREATE TRIGGER pods_vs_claims_insert AFTER INSERT ON pods WHEN NEW.state IN {LIVE} "
    f"BEGIN {_SQLITE_POD} END",
    f"CREATE TRIGGER pods_vs_claims_update AFTER UPDATE ON pods WHEN NEW.state IN {LIVE} "
    f"AND (OLD.state NOT IN {LIVE} OR OLD.node <> NEW.node OR OLD.gpu_mask <> NEW.gpu_mask) "
    f"BEGIN {_SQLITE_POD} END",
]

_PG_POD = """
    IF NOT EXISTS (SELECT 1 FROM claims WHERE NOT gone AND why IN {held}) THEN
      RETURN NULL;
    END IF;
    SELECT p.node INTO clash FROM ({rows}) p JOIN claims c ON c.node = p.node
      WHERE NOT c.gone AND c.why IN {held} AND c.job_uid IS DISTINCT FROM p.job_uid
        AND (c.gpu_mask & p.gpu_mask) <> 0
        AND (c.why NOT IN {lent} OR NOT EXISTS (
          SELECT 1 FROM jobs j WHERE j.uid = p.job_uid
            AND (j.spec::json->>'preemptible') = 'true'
            AND (j.spec::json->>'grace_s') IS NULL))
      ORDER BY p.node LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'ledger: a GPU of node % is claimed by another gang', clash
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""

_INSERTED = f"SELECT node, job_uid, gpu_mask FROM new_pods WHERE state IN {LIVE}"
_UPDATED = f"""
    SELECT n.node, n.job_uid, n.gpu_mask FROM new_pods n JOIN old_pods o ON o.uid = n.uid
      WHERE n.state IN {LIVE}
        AND (o.state NOT IN {LIVE} OR o.node <> n.node OR o.gpu_mask <> n.gpu_mask)
"""


def _function(name: str, rows: str) -> str:
    # The triggers stay; what they run is replaced.
    return f"""
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE clash text;
BEGIN
{_PG_POD.format(rows=rows, held=HELD, lent=LENT)}
  RETURN NULL;
END $$
"""


POSTGRESQL_UP = [
    _function("podyard_pods_vs_claims_insert", _INSERTED),
    _function("podyard_pods_vs_claims_update", _UPDATED),
]

POSTGRESQL_DOWN = [
    statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    for statement in before.POSTGRESQL_UP
    if "FUNCTION podyard_pods_vs_claims" in statement and "CREATE FUNCTION" in statement
]
