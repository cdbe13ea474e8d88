"""Answers to the `extender` plugin of the Volcano scheduler, each by the name of its hook.

The snapshot comes when a session opens; the first question about a job has its gang placed by the
engine, and what is asked of its tasks after that is answered from that plan.
"""

import threading
from collections.abc import Callable, Mapping
from fractions import Fraction

from api.k8s.extender.cluster import Topologies, amount_of
from api.k8s.extender.reading import (
    MalformedRequest,
    Tree,
    list_at,
    number_at,
    required,
    text_at,
    tree_at,
)
from api.k8s.extender.session import Session, gang_of, open_session, ready_count
from api.k8s.volcano.gang import GPU_RESOURCES
from api.k8s.volcano.quantity import parse_quantity
from scheduler.cluster.nodes import NodeTable
from scheduler.cluster.trial import Trial
from scheduler.errors import Problem
from scheduler.model.placement import NoFit
from scheduler.place.search import place
from scheduler.topology.tree import Topology

FITS, UNSCHEDULABLE = 0, 2
PERMIT, ABSTAIN, REJECT = 1, 0, -1
SCORE_MAX = 100.0

Answer = dict[str, object]


class VolcanoExtender:
    """Questions of one scheduler; the newest session counts.

    Args:
        own: Reads the topology of the service's own inventory.
    """

    def __init__(self, own: Callable[[], Topology]) -> None:
        self._topologies = Topologies(own)
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._verbs: Mapping[str, Callable[[Tree], Answer]] = {
            "onSessionOpen": self._open,
            "onSessionClose": self._close,
            "predicate": self._predicate,
            "prioritize": self._prioritize,
            "preemptable": _abstain,
            "reclaimable": _abstain,
            "queueOverused": self._queue_overused,
            "jobEnqueueable": self._job_enqueueable,
            "jobEnqueued": lambda _: {},
            "jobReady": self._job_ready,
            "allocateFunc": lambda body: _noted(body),
            "deallocateFunc": lambda body: _noted(body),
        }

    @property
    def verbs(self) -> list[str]:
        return list(self._verbs)

    def answer(self, verb: str, body: Tree) -> Answer:
        """The answer to one question.

        Raises:
            MalformedRequest: If it lacks what it is about.
        """
        with self._lock:
            return self._verbs[verb](body)

    def _open(self, body: Tree) -> Answer:
        self._session = open_session(body, self._topologies)
        return {}

    def _close(self, body: Tree) -> Answer:
        self._session = None
        return {}

    def _node_of(self, task: Tree) -> tuple[str, str]:
        """The node of a task in the plan of its job, and why it has none; both "" = no opinion."""
        plan = None if self._session is None else self._session.plan(text_at(task, "Job"))
        if plan is None:
            return "", ""
        node = plan.nodes.get(text_at(task, "UID"), "")
        return node, "" if node else plan.why or "it has no place beside the others of its gang"

    def _predicate(self, body: Tree) -> Answer:
        task, node = required(body, "task"), required(body, "node")
        planned, why = self._node_of(task)
        if why:
            return {"status": why, "code": UNSCHEDULABLE}
        if planned not in ("", text_at(node, "Name")):
            said = f"the place of '{text_at(task, 'Name')}' in its gang is on node '{planned}'"
            return {"status": said, "code": UNSCHEDULABLE}
        return {"status": "", "code": FITS}

    def _prioritize(self, body: Tree) -> Answer:
        planned, _ = self._node_of(required(body, "task"))
        names = [text_at(node, "Name") for node in list_at(body, "nodes")]
        scores = {name: SCORE_MAX if name == planned else 0.0 for name in names if name}
        return {"nodeScore": scores, "errorMessage": ""}

    def _queue_overused(self, body: Tree) -> Answer:
        """Whether what is allocated in a queue has reached what it may have in GPUs."""
        queue = required(body, "queue")
        limit = _gpu_limit(tree_at(queue, "Queue", "spec", "capability"))
        if limit is None or self._session is None:
            return {"overused": False}
        name = text_at(queue, "UID") or text_at(queue, "Name")
        used = sum(
            amount_of(tree_at(job, "Allocated")).gpus
            for job in self._session.jobs.values()
            if text_at(job, "Queue") == name
        )
        return {"overused": used >= limit}

    def _job_enqueueable(self, body: Tree) -> Answer:
        """Reject a gang that the cluster, even if it were empty, could not hold."""
        job, session = required(body, "job"), self._session
        if session is None:
            return {"status": ABSTAIN}
        gang = gang_of(job, session.topology)
        if not gang.tasks:
            return {"status": ABSTAIN}
        found = place(Trial(NodeTable(session.topology)), gang.specs()[-1])
        return {"status": REJECT if isinstance(found, NoFit) else PERMIT}

    def _job_ready(self, body: Tree) -> Answer:
        job = required(body, "job")
        return {"status": ready_count(job) >= number_at(job, "MinAvailable")}


def _abstain(body: Tree) -> Answer:
    """Who makes way for whom in a foreign cluster is left to its own scheduler."""
    required(body, "evictor")
    return {"status": ABSTAIN, "victims": []}


def _noted(body: Tree) -> Answer:
    required(body, "task")
    return {"errorMessage": ""}


def _gpu_limit(capability: Tree) -> Fraction | None:
    """GPUs that a queue may have; None = any number."""
    try:
        found = [parse_quantity(capability[name]) for name in GPU_RESOURCES if name in capability]
    except ValueError as error:
        raise MalformedRequest(Problem("queue.Queue.spec.capability", str(error))) from None
    return sum(found, Fraction(0)) if found else None
