"""Records of jobs that ended long ago are deleted, a few at a time, as a caller would do it."""

import sqlalchemy as sa

from api.store.bulk import among
from api.store.engine import Database, Transaction
from api.store.months import month_of
from api.store.tables import jobs, usage_jobs
from scheduler.model.lifecycle import FINAL

STEP = 500
"""Records deleted in one transaction; a few milliseconds."""

USAGE_KEPT_S = 400 * 86_400.0
"""How long it is known what each single job has used: a year and a month."""

_OVER = (jobs.c.state.in_(sorted(FINAL)), jobs.c.pods_live == 0)


def forget_jobs(db: Database, *, before: float, now_s: float) -> int:
    """Delete records of jobs that ended before then and whose pods have all stopped.

    Each is an event, as when somebody deletes it, so that all who follow learn of it.

    Returns:
        How many, at most `STEP`; so call it again while it removes as many.
    """
    wanted = (*_OVER, jobs.c.finished_at < before)
    columns = (jobs.c.uid, jobs.c.namespace, jobs.c.name, jobs.c.state)
    query = sa.select(*columns).where(*wanted).order_by(jobs.c.finished_at, jobs.c.uid).limit(STEP)
    with db.read() as connection:
        if connection.execute(query.limit(1)).first() is None:
            return 0

    def work(tx: Transaction) -> int:
        # Read again, as others may have deleted some meanwhile.
        found = tx.connection.execute(query).all()
        for row in found:
            tx.emit(
                "job.deleted",
                subject_kind="job",
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                message=f"its record was deleted, as it had {row.state} long ago",
            )
        gone = among(tx.connection, jobs.c.uid, [row.uid for row in found])
        tx.connection.execute(sa.delete(jobs).where(gone))
        return len(found)

    return db.grouped(work, now_s)


def forget_usage(db: Database, *, now_s: float) -> int:
    """Forget what single jobs used in months that are long over; sums by owner stay."""
    oldest = month_of(int((now_s - USAGE_KEPT_S) * 1_000))
    with db.write_quietly() as connection:
        return connection.execute(sa.delete(usage_jobs).where(usage_jobs.c.month < oldest)).rowcount
