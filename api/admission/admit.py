"""The door: a request becomes a job that agrees with itself, the map and its queue; or not."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from api.admission.hooks import NO_HOOKS, HookRules, check_hooks
from api.admission.image import check_image
from api.admission.queue import check_queue, never_in
from api.auth.seen import Names
from api.schemas.job import JobBody
from api.schemas.job_spec import ReadJob, read_job
from api.store.engine import Database
from api.store.ground import GroundKey, current_ground
from api.store.queue_rows import QueueChain
from scheduler.cluster.nodes import NodeTable
from scheduler.cluster.trial import Trial
from scheduler.cluster.world import wish_of
from scheduler.errors import JobError, Problem
from scheduler.importers.hostlist import HostlistError, expand
from scheduler.model.job import IfNeverFits, JobSpec
from scheduler.model.placement import NoFit
from scheduler.place.admit import check_job, check_size, never_fits_in
from scheduler.topology.tree import Topology

NODES_MAX = 100_000
"""Names that a job's `nodes` may stand for."""

VERDICTS_MAX = 1_000
"""Different wishes whose verdict on the empty cluster is kept."""


class NeverFits(JobError):
    """A gang that not even the empty cluster, healthy and uncordoned, could hold.

    Attributes:
        verdict: Why.
    """

    def __init__(self, path: str, verdict: NoFit) -> None:
        self.verdict = verdict
        super().__init__(Problem(path, verdict.message))


@dataclass(slots=True)
class _Empty:
    """One map with every node empty; its counts and verdicts are kept between questions.

    Attributes:
        verdicts: By what of a job decides where it may go; jobs come in many alike.
    """

    topology: Topology
    trial: Trial
    verdicts: dict[object, NoFit | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What requests are checked against, of one moment; a queue that is not there is left out."""

    topology: Topology
    queues: Mapping[str, QueueChain]
    key: GroundKey
    priorities: Mapping[str, int] = field(default_factory=dict)
    never_preempt: tuple[str, ...] = ()
    names: Names = None


class Door:
    """Checks requests; writes nothing.

    Args:
        hooks: Which hooks jobs may have; none by default.
        launcher: What runs the images of jobs; "" = nothing, they may have none.
    """

    def __init__(self, database: Database, hooks: HookRules = NO_HOOKS, launcher: str = "") -> None:
        self._database = database
        self._hooks = hooks
        self._launcher = launcher
        self._lock = threading.Lock()
        self._empty: _Empty | None = None

    @property
    def has_launcher(self) -> bool:
        """Whether jobs may have images."""
        return bool(self._launcher)

    def admit(self, body: JobBody, names: Names = None) -> ReadJob:
        """The job of a request.

        Args:
            names: The namespaces that the caller is bound to, as of all methods here; None = all.

        Raises:
            JobError: With every contradiction found, by its path.
            NeverFits: If it never fits and did not say that it would wait all the same.
        """
        seen = self._look_for([body], names)
        try:
            return self._admitted(body, seen)
        except JobError:
            again = self._look_for([body], names, fresh=True)
            if again.key == seen.key:
                raise
        return self._admitted(body, again)

    def admit_all(self, bodies: Sequence[JobBody], names: Names = None) -> list[ReadJob | JobError]:
        """The jobs of requests that came together, each by itself, or what is wrong with it."""
        seen = self._look_for(bodies, names)
        results = self._results(bodies, seen)
        if any(isinstance(result, JobError) for result in results):
            again = self._look_for(bodies, names, fresh=True)
            if again.key != seen.key:
                return self._results(bodies, again)
        return results

    def _results(self, bodies: Sequence[JobBody], seen: _Seen) -> list[ReadJob | JobError]:
        results: list[ReadJob | JobError] = []
        for body in bodies:
            try:
                results.append(self._admitted(body, seen))
            except JobError as error:
                results.append(error)
        return results

    def check(self, body: JobBody, names: Names = None) -> ReadJob:
        """The job of a request, whether or not it could ever fit. Raises JobError."""
        return self._checked(body, self._look_for([body], names, fresh=True))

    def look_again(self) -> None:
        """Check the next requests against what is there now, whoever changed it."""
        current_ground(self._database, fresh=True)

    def readmit(self, old: JobSpec, new: JobSpec, names: Names = None) -> None:
        """Check what a change of a job makes new: its queue, and whether a larger one ever fits.

        What was let in stays in: a level that is gone, or a limit of its queue that was lowered,
        does not stop an unrelated change.

        Raises:
            JobError: If its queue does not take it, or its members are too many.
            NeverFits: If it grows to what never fits and has not said that it would wait.
        """
        seen = self._look({new.queue}, fresh=True)
        queue = seen.queues.get(new.queue)
        if (old.queue, old.priority) != (new.queue, new.priority):
            check_queue(new, queue, names, is_move=old.queue != new.queue)
        if not _grows(old, new) and old.queue == new.queue:
            return
        check_size(new)
        if new.if_never_fits is IfNeverFits.REFUSE:
            _refuse_denied(new, queue)
            self._refuse_never(new, seen.topology)

    def _admitted(self, body: JobBody, seen: _Seen) -> ReadJob:
        read = self._checked(body, seen)
        if read.spec.if_never_fits is IfNeverFits.REFUSE:
            _refuse_denied(read.spec, seen.queues.get(read.spec.queue))
            self._refuse_never(read.spec, seen.topology)
        return read

    def _checked(self, body: JobBody, seen: _Seen) -> ReadJob:
        check_hooks(body, self._hooks)
        check_image(body, self._launcher)
        return _checked(body, seen)

    def _look_for(self, bodies: Sequence[JobBody], names: Names, *, fresh: bool = False) -> _Seen:
        """What these requests are checked against."""
        seen = self._look({body.queue for body in bodies}, fresh=fresh)
        return seen if names is None else replace(seen, names=names)

    def _look(self, names: set[str], *, fresh: bool = False) -> _Seen:
        """The map, some queues and what the policy says; `fresh`: as of now, not as last known.

        Who is let in on what was known is checked once more when the job is written; who is
        refused is looked at again first.
        """
        ground = current_ground(self._database, fresh=fresh)
        chains = ground.chains(names)
        return _Seen(ground.topology, chains, ground.key, ground.priorities, ground.never_preempt)

    def _refuse_never(self, spec: JobSpec, topology: Topology) -> None:
        wish = wish_of(spec)
        with self._lock:
            if self._empty is None or self._empty.topology is not topology:
                self._empty = _Empty(topology, Trial(NodeTable(topology)))
            verdicts = self._empty.verdicts
            if wish not in verdicts:
                if len(verdicts) >= VERDICTS_MAX:
                    verdicts.clear()
                verdicts[wish] = never_fits_in(self._empty.trial, spec)
            verdict = verdicts[wish]
        if verdict is not None:
            raise NeverFits(_path_of(spec, verdict), verdict)


def _refuse_denied(spec: JobSpec, queue: QueueChain | None) -> None:
    """Refuse a gang whose minimum a limit of its queue, or of one above it, never holds."""
    denied = never_in(spec, queue)
    if denied is not None:
        raise NeverFits("queue", denied.verdict())


def _checked(body: JobBody, seen: _Seen) -> ReadJob:
    read = read_job(body)
    spec = read.spec
    if spec.nodes:
        spec = replace(spec, nodes=_expanded(spec.nodes))
    shown = read.body
    if body.priority_class is not None:
        preempts = body.preempts and body.priority_class not in seen.never_preempt
        spec = replace(spec, priority=_priority(body.priority_class, seen), preempts=preempts)
        shown = {**shown, "preempts": preempts}
    check_job(spec, seen.topology.level_names)
    check_queue(spec, seen.queues.get(spec.queue), seen.names)
    return ReadJob(spec, shown, seen.key)


def _priority(name: str, seen: _Seen) -> int:
    found = seen.priorities.get(name)
    if found is None:
        allowed = ", ".join(sorted(seen.priorities)) or "none: /v1/policy has no priorities"
        raise JobError(Problem("priority_class", f"there is no '{name}'; allowed are {allowed}"))
    return found


def _grows(old: JobSpec, new: JobSpec) -> bool:
    """Whether any role is to have, or to need, more members."""
    return any(
        after.replicas > before.replicas or after.min > before.min
        for before, after in zip(old.roles, new.roles, strict=True)
    )


def _expanded(texts: tuple[str, ...]) -> tuple[str, ...]:
    names: list[str] = []
    problems: list[Problem] = []
    for index, text in enumerate(texts):
        try:
            names += expand(text, limit=NODES_MAX, used=len(names))
        except HostlistError as error:
            problems += [Problem(f"nodes[{index}]", p.message) for p in error.problems]
    if problems:
        raise JobError(problems)
    return tuple(dict.fromkeys(names))


def _path_of(spec: JobSpec, verdict: NoFit) -> str:
    """Where in the request the rule that binds stands, or else the size of the gang."""
    if verdict.rule is not None:
        for index, rule in enumerate(spec.rules):
            if rule == verdict.rule:
                return f"topology[{index}].within"
        for index, role in enumerate(spec.roles):
            # A verdict calls the groups of a role's own rules by other names than the request.
            parts = role.parts.rules if role.parts else ()
            for path, rules in (("topology", role.rules), ("parts.topology", parts)):
                if any(rule.within == verdict.rule.within for rule in rules):
                    return f"roles[{index}].{path}"
    return "roles" if spec.roles else "parallelism"
