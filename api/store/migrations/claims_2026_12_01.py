"""Triggers that keep claims apart from one another, and bindings off what claims hold.

Frozen like the migration that uses it. Two claims that are not gone share no GPU of a node at one
time, and a claim has only GPUs of its node. A pod does not take a GPU that another gang's claim for
preemption, recovery or a spare holds; it may take what is reserved for later, which is for the
leader to decide.

SQLite looks at each row, PostgreSQL once for each statement at all its rows. There the rows of the
ledger are locked first, so that of two transactions at once the later sees what the earlier wrote;
the triggers on pods come after those of the ledger, by their names, and find them locked.
"""

LIVE = "('bound', 'running', 'terminating', 'lost')"
HELD = "('preemption', 'recovery', 'spare')"
"""Kinds of claims whose GPUs are taken as soon as they are free."""

_MEET = """
    c.node = {new}.node AND c.uid <> {new}.uid AND NOT c.gone AND (c.gpu_mask & {new}.gpu_mask) <> 0
    AND (c.until_at IS NULL OR {new}.starts_at < c.until_at)
    AND ({new}.until_at IS NULL OR c.starts_at < {new}.until_at)
"""

_SQLITE_CLAIM = f"""
    SELECT RAISE(ABORT, 'ledger: the node of a claim does not exist')
      WHERE NOT EXISTS (SELECT 1 FROM node_usage WHERE node = NEW.node);
    SELECT RAISE(ABORT, 'ledger: a claim has a GPU that its node does not have')
      FROM node_usage WHERE node = NEW.node AND (NEW.gpu_mask & ~gpu_mask_all) <> 0;
    SELECT RAISE(ABORT, 'ledger: a GPU of this node is claimed already at that time')
      FROM claims c WHERE {_MEET.format(new="NEW")};
"""

_SQLITE_POD = f"""
    SELECT RAISE(ABORT, 'ledger: a GPU of this node is claimed by another gang')
      FROM claims c
      WHERE c.node = NEW.node AND NOT c.gone AND c.why IN {HELD} AND c.job_uid <> NEW.job_uid
        AND (c.gpu_mask & NEW.gpu_mask) <> 0;
"""

SQLITE_UP = [
    f"CREATE TRIGGER claims_insert AFTER INSERT ON claims WHEN NOT NEW.gone "
    f"BEGIN {_SQLITE_CLAIM} END",
    f"CREATE TRIGGER claims_update AFTER UPDATE ON claims WHEN NOT NEW.gone AND (OLD.gone "
    "OR OLD.node <> NEW.node OR OLD.gpu_mask <> NEW.gpu_mask OR OLD.starts_at <> NEW.starts_at "
    f"OR OLD.until_at IS NOT NEW.until_at) BEGIN {_SQLITE_CLAIM} END",
    "CREATE TRIGGER claims_identity BEFORE UPDATE ON claims "
    "WHEN OLD.uid <> NEW.uid OR OLD.job_uid IS NOT NEW.job_uid "
    "OR OLD.window_name <> NEW.window_name "
    "BEGIN SELECT RAISE(ABORT, 'ledger: a claim keeps its uid and its owner'); END",
    f"CREATE TRIGGER pods_vs_claims_insert AFTER INSERT ON pods WHEN NEW.state IN {LIVE} "
    f"BEGIN {_SQLITE_POD} END",
    f"CREATE TRIGGER pods_vs_claims_update AFTER UPDATE ON pods WHEN NEW.state IN {LIVE} "
    f"AND (OLD.state NOT IN {LIVE} OR OLD.node <> NEW.node OR OLD.gpu_mask <> NEW.gpu_mask) "
    f"BEGIN {_SQLITE_POD} END",
]

SQLITE_DOWN = [
    f"DROP TRIGGER {name}"
    for name in (
        "claims_insert",
        "claims_update",
        "claims_identity",
        "pods_vs_claims_insert",
        "pods_vs_claims_update",
    )
]

# Whoever claims locks the ledger's rows of its nodes in their order; each of the statements below
# sees what was committed before it.
_PG_CLAIM = f"""
    PERFORM 1 FROM node_usage u
      WHERE u.node IN (SELECT node FROM new_claims WHERE NOT gone) ORDER BY u.node FOR UPDATE;
    SELECT n.node INTO clash FROM new_claims n LEFT JOIN node_usage u ON u.node = n.node
      WHERE NOT n.gone AND (u.node IS NULL OR (n.gpu_mask & ~u.gpu_mask_all) <> 0)
      ORDER BY n.node LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'ledger: a claim has a GPU that node % does not have', clash
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    SELECT n.node INTO clash FROM new_claims n JOIN claims c ON {_MEET.format(new="n")}
      WHERE NOT n.gone ORDER BY n.node LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'ledger: a GPU of node % is claimed already at that time', clash
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""

# Most often nobody has such a claim, and one look at an empty index is all it costs.
_PG_POD = """
    IF NOT EXISTS (SELECT 1 FROM claims WHERE NOT gone AND why IN {held}) THEN
      RETURN NULL;
    END IF;
    SELECT p.node INTO clash FROM ({rows}) p JOIN claims c ON c.node = p.node
      WHERE NOT c.gone AND c.why IN {held} AND c.job_uid <> p.job_uid
        AND (c.gpu_mask & p.gpu_mask) <> 0
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


def _function(name: str, body: str) -> str:
    return f"""
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE clash text;
BEGIN
{body}
  RETURN NULL;
END $$
"""


POSTGRESQL_UP = [
    _function("podyard_claims", _PG_CLAIM),
    _function("podyard_pods_vs_claims_insert", _PG_POD.format(rows=_INSERTED, held=HELD)),
    _function("podyard_pods_vs_claims_update", _PG_POD.format(rows=_UPDATED, held=HELD)),
    "CREATE TRIGGER claims_insert AFTER INSERT ON claims REFERENCING NEW TABLE AS new_claims "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_claims()",
    "CREATE TRIGGER claims_update AFTER UPDATE ON claims REFERENCING NEW TABLE AS new_claims "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_claims()",
    "CREATE TRIGGER claims_identity BEFORE UPDATE ON claims FOR EACH ROW "
    "WHEN (OLD.uid <> NEW.uid OR OLD.job_uid IS DISTINCT FROM NEW.job_uid "
    "OR OLD.window_name <> NEW.window_name) EXECUTE FUNCTION podyard_refuse()",
    "CREATE TRIGGER pods_vs_claims_insert AFTER INSERT ON pods REFERENCING NEW TABLE AS new_pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_pods_vs_claims_insert()",
    "CREATE TRIGGER pods_vs_claims_update AFTER UPDATE ON pods "
    "REFERENCING OLD TABLE AS old_pods NEW TABLE AS new_pods "
    "FOR EACH STATEMENT EXECUTE FUNCTION podyard_pods_vs_claims_update()",
]

POSTGRESQL_DOWN = [
    "DROP TRIGGER pods_vs_claims_insert ON pods",
    "DROP TRIGGER pods_vs_claims_update ON pods",
    "DROP TRIGGER claims_insert ON claims",
    "DROP TRIGGER claims_update ON claims",
    "DROP TRIGGER claims_identity ON claims",
    "DROP FUNCTION podyard_claims()",
    "DROP FUNCTION podyard_pods_vs_claims_insert()",
    "DROP FUNCTION podyard_pods_vs_claims_update()",
]
