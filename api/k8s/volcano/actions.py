"""What can be done with a Volcano job as a whole, by a command or by a policy: facts, nothing more.

| action                                     | fact    | the job is then                        |
|--------------------------------------------|---------|----------------------------------------|
| AbortJob                                   | suspend | Aborting, Aborted                      |
| ResumeJob                                  | resume  | Restarting, Pending                    |
| RestartJob, RestartTask, RestartPod,       | requeue | Restarting, Pending; Failed when its   |
| RestartPartition                           |         | restarts are used up                   |
| CompleteJob, TerminateJob                  | cancel  | Completing, Completed; Terminating ... |
| SyncJob, EnqueueJob                        | none    | as it was                              |
"""

from dataclasses import replace

from api.k8s.volcano.failing import RESTARTS
from api.k8s.volcano.life import Life, read_life, with_life
from api.k8s.volcano.pod_rules import number_at, tree
from api.store.control import control_in
from api.store.ending import End, end_jobs
from api.store.errors import Conflict, NotFound
from api.store.objects import ObjectRow, put_object
from api.store.transaction import Transaction
from api.store.views import JobView
from scheduler.model.lifecycle import FINAL, JobState
from scheduler.model.plan import FactKind

NOTHING = ("SyncJob", "EnqueueJob")
ENDS = ("CompleteJob", "TerminateJob", "FailJob")
JOB_ACTIONS = ("AbortJob", "ResumeJob", *RESTARTS, "CompleteJob", "TerminateJob", *NOTHING)


def act(tx: Transaction, view: JobView, row: ObjectRow, action: str, why: str) -> ObjectRow:
    """Write the fact that an action stands for, and note the action with the job.

    A job that has ended, or is about to by an earlier action, stays as it is.

    Raises:
        StateError: If the job's state makes no sense of it.
    """
    life = read_life(row.body)
    if view.state in FINAL or view.cancelling or life.action in ENDS or action in NOTHING:
        return row
    retries = life.retries
    if action in RESTARTS:
        retries = max(retries, view.attempt - 1) + 1
        if retries >= number_at(tree(row.body, "spec"), "maxRetry"):
            action, why = "FailJob", f"{why}; it was restarted as often as maxRetry allows"
    if action in ENDS:
        (ended,) = end_jobs(tx, [End(view.namespace, view.name)])
        if isinstance(ended, Conflict | NotFound):
            raise ended
    elif action == "AbortJob":
        control_in(tx, view.namespace, view.name, FactKind.SUSPEND)
    elif action == "ResumeJob":
        if not _is_aborted(view, life):
            return row
        control_in(tx, view.namespace, view.name, FactKind.RESUME)
    elif view.state is JobState.SUSPENDED:
        return row
    else:
        control_in(tx, view.namespace, view.name, FactKind.REQUEUE)
    done = Life(action, view.attempt, tx.now_s, why, retries, seen=life.seen)
    revision = tx.emit(
        "job.execute_action",
        subject_kind="job",
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        message=f"{action}: {why}",
        body={"action": action},
    )
    return put_object(tx, replace(row, body=with_life(row.body, done)), revision=revision)


def _is_aborted(view: JobView, life: Life) -> bool:
    leaves = view.evict is not None and view.evict.then is JobState.SUSPENDED
    return view.state is JobState.SUSPENDED or leaves or life.action == "AbortJob"
