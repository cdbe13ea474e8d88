"""What starts the pods of a job: its command, its members in order, and what to restore."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from api.store.checkpoints import Checkpoint, lost_nodes, newest_that_exists
from api.store.engine import Database
from api.store.jsontext import load_dict
from api.store.pods import pod_view, select_pods
from api.store.tables import jobs, pods
from api.store.views import PodView
from scheduler.model.lifecycle import LIVE_POD, PodState


@dataclass(frozen=True, slots=True)
class Start:
    """What starts the pods of one job.

    Attributes:
        run: As asked for: `command`, `env`, `image`.
        is_strict: Its pods end by themselves when their node has been cut off for long.
        lost_after_s: Its own time of silence until they count as lost; None = the policy's.
        members: Its pods that run or have ended well, in the order of ranks.
        checkpoint: The newest of which a copy is left.
    """

    run: Mapping[str, object]
    is_strict: bool
    lost_after_s: float | None
    members: tuple[PodView, ...]
    checkpoint: Checkpoint | None


def starts_of(db: Database, job_uids: Iterable[str]) -> dict[str, Start]:
    """What starts the pods of some jobs, by their uid."""
    with db.read() as connection:
        lost = lost_nodes(connection)
        return {uid: _start(connection, uid, lost) for uid in sorted(set(job_uids))}


def _start(connection: Connection, uid: str, lost: frozenset[str]) -> Start:
    stated = connection.execute(sa.select(jobs.c.body).where(jobs.c.uid == uid)).scalar()
    body = load_dict(stated or "{}")
    run, failure = body.get("run"), body.get("failure")
    order = (pods.c.first_rank, pods.c.role_index, pods.c.pod_index)
    rows = connection.execute(select_pods().where(pods.c.job_uid == uid).order_by(*order))
    members = tuple(
        pod
        for pod in map(pod_view, rows)
        if pod.state in LIVE_POD or pod.state is PodState.SUCCEEDED
    )
    checkpoint = newest_that_exists(connection, uid, lost)
    failing = failure if isinstance(failure, dict) else {}
    return Start(
        run if isinstance(run, dict) else {},
        failing.get("fence") == "strict",
        failing.get("lost_after_s"),
        members,
        checkpoint,
    )
