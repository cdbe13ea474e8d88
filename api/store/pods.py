"""Pods: list, and what their nodes report of them."""

from collections.abc import Callable, Collection
from functools import partial

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from api.store.bulk import within
from api.store.engine import Database, Transaction, read_revision
from api.store.errors import Conflict, NotFound
from api.store.jsontext import load_dict
from api.store.paging import clamp, decode_cursor, encode_cursor, page_of
from api.store.rows import AnyRow, AnySelect
from api.store.tables import facts, jobs, nodes, pods
from api.store.told_facts import tell_facts
from api.store.views import Page, PodView
from scheduler.errors import Problem, StateError
from scheduler.model.lifecycle import LIVE_POD, POD_MOVES, REPORTED, PodState
from scheduler.model.plan import FactKind
from scheduler.model.resources import Resources

MayReport = Callable[[str, str, bool], None]


def list_pods(
    db: Database,
    *,
    namespace: str | None = None,
    job: str | None = None,
    node: str | None = None,
    limit: int = 500,
    cursor: str | None = None,
    namespaces: Collection[str] | None = None,
) -> Page[PodView]:
    """Pods of jobs whose record is there, by job age, role order, index.

    Args:
        namespaces: Those that are shown; None = all.

    Raises:
        BadCursor: If the cursor was not given by such a list.
    """
    size = clamp(limit)
    wanted: list[ColumnElement[bool]] = []
    for column, value in ((jobs.c.namespace, namespace), (jobs.c.name, job), (pods.c.node, node)):
        if value is not None:
            wanted.append(column == value)
    order = (jobs.c.age, pods.c.role_index, pods.c.pod_index)
    if cursor is not None:
        last = decode_cursor(cursor, int, int, int)
        # The first term alone lets both databases start at the right place of the index.
        wanted += [jobs.c.age >= last[0], sa.tuple_(*order) > sa.tuple_(*map(sa.literal, last))]
    with db.read() as connection:
        revision = read_revision(connection)
        wanted += within(connection, jobs.c.namespace, namespaces)
        query = select_pods().where(*wanted).order_by(*order).limit(size + 1)
        rows = connection.execute(query).all()
    return page_of(rows, size, revision=revision, view=pod_view, cursor_of=_cursor_of)


def pods_of(db: Database, job_uid: str) -> tuple[PodView, ...]:
    """All pods of one job, by role order and index."""
    with db.read() as connection:
        order = (pods.c.role_index, pods.c.pod_index)
        query = select_pods().where(pods.c.job_uid == job_uid).order_by(*order)
        return tuple(pod_view(row) for row in connection.execute(query))


def get_pod(db: Database, namespace: str, name: str) -> PodView:
    """The pod of that name of the newest job that has one.

    Raises:
        NotFound: If there is none.
    """
    with db.read() as connection:
        return newest_pod(connection, namespace, name)


def report_pod(
    db: Database,
    namespace: str,
    name: str,
    *,
    attempt: int,
    state: PodState,
    exit_code: int | None,
    now_s: float,
    uid: str | None = None,
    may: MayReport | None = None,
) -> PodView:
    """Write down what a node says of a pod; the leader acts on it.

    The same report again is taken and does nothing.

    Args:
        uid: Of the pod that is meant, if the node says so; the name may be another job's by now.
        may: Refuses who may not speak for a pod, by its namespace, its node and whether that has
            an agent.

    Returns:
        The pod as it stands; the report has yet to be acted on.

    Raises:
        NotFound: If there is no such pod.
        Conflict: If the report is of another pod or attempt, or the pod has ended otherwise (or was
            reported to).
        StateError: If a node cannot report this state.
    """
    if state not in REPORTED:
        allowed = ", ".join(sorted(REPORTED))
        raise StateError(
            Problem("state", f"a node cannot report '{state}'; it may report {allowed}")
        )

    def work(tx: Transaction) -> PodView:
        pod = newest_pod(tx.connection, namespace, name)
        if may is not None:
            may(pod.namespace, pod.node, _has_agent(tx.connection, pod.node))
        _check_uid(pod, uid)
        _check_attempt(pod, attempt)
        if is_news(tx.connection, pod, state, exit_code):
            _write_report(tx, pod, state, exit_code)
        return pod

    return db.grouped(work, now_s)


def _has_agent(connection: Connection, node: str) -> bool:
    query = sa.select(nodes.c.has_agent).where(nodes.c.name == node)
    return bool(connection.execute(query).scalar_one_or_none())


def report_known(tx: Transaction, pod: PodView, state: PodState, exit_code: int | None) -> None:
    """Write down what the agent of its node says of a pod's present attempt, if that is news.

    Raises:
        Conflict: If it has ended otherwise, or was reported to.
    """
    if is_news(tx.connection, pod, state, exit_code):
        _write_report(tx, pod, state, exit_code)


def pod_view(row: AnyRow) -> PodView:
    """A row of the select of this module as a value."""
    r = row._mapping
    return PodView(
        uid=r["uid"],
        job_uid=r["job_uid"],
        namespace=r["namespace"],
        job=r["job_name"],
        name=r["name"],
        role=r["role"],
        index=r["pod_index"],
        node=r["node"],
        gpu_mask=r["gpu_mask"],
        first_rank=r["first_rank"],
        state=PodState(r["state"]),
        attempt=r["attempt"],
        exit_code=r["exit_code"],
        resources=read_resources(r["cpu_milli"], r["memory_mib"], r["other"]),
        revision=r["revision"],
    )


def read_resources(cpu_milli: int, memory_mib: int, other: str | None) -> Resources:
    """The three columns of a pod's resources as one value."""
    if not other:
        return Resources(cpu_milli, memory_mib)
    amounts = tuple(sorted((name, int(str(n))) for name, n in load_dict(other).items()))
    return Resources(cpu_milli, memory_mib, amounts)


def select_pods() -> AnySelect:
    """Pods with the name and age of their job, as `pod_view` reads them."""
    columns = (pods, jobs.c.name.label("job_name"), jobs.c.age.label("job_age"))
    return sa.select(*columns).join(jobs, jobs.c.uid == pods.c.job_uid)


def _cursor_of(row: AnyRow) -> str:
    r = row._mapping
    return encode_cursor(r["job_age"], r["role_index"], r["pod_index"])


def newest_pod(connection: Connection, namespace: str, name: str) -> PodView:
    """The pod of that name of the newest job that has one.

    Raises:
        NotFound: If there is none.
    """
    row = connection.execute(
        select_pods()
        .where(pods.c.namespace == namespace, pods.c.name == name)
        .order_by(jobs.c.age.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        raise NotFound("pod", f"{namespace}/{name}")
    return pod_view(row)


def _check_uid(pod: PodView, uid: str | None) -> None:
    if uid is not None and uid != pod.uid:
        raise Conflict(
            "uid",
            f"pod '{pod.namespace}/{pod.name}' is '{pod.uid}' of job '{pod.job}', not '{uid[:80]}'",
        )


def _check_attempt(pod: PodView, attempt: int) -> None:
    if attempt != pod.attempt:
        word = "over" if attempt < pod.attempt else "yet to come"
        raise Conflict(
            "attempt",
            f"attempt {attempt} of pod '{pod.name}' is {word}; the pod is in attempt {pod.attempt}",
        )


def is_news(connection: Connection, pod: PodView, state: PodState, exit_code: int | None) -> bool:
    """Whether a report says more than what is known or reported already.

    Raises:
        Conflict: If the pod has ended otherwise, or was reported to.
    """
    last = connection.execute(
        sa.select(facts.c.pod_state, facts.c.exit_code)
        .where(
            facts.c.job_uid == pod.job_uid,
            facts.c.pod_uid == pod.uid,
            facts.c.attempt == pod.attempt,
            # A fault of its node is a fact about the pod too, which says nothing of its state.
            facts.c.pod_state.is_not(None),
            facts.c.applied_at.is_(None),
        )
        .order_by(facts.c.id.desc())
        .limit(1)
    ).first()
    known = PodState(last.pod_state) if last is not None else pod.state
    known_code = last.exit_code if last is not None else pod.exit_code
    if known is state and (state in LIVE_POD or exit_code in {known_code, None}):
        return False
    if known not in LIVE_POD or state not in POD_MOVES[known]:
        code = "" if known_code is None else f" with exit code {known_code}"
        raise Conflict(
            "state", f"pod '{pod.name}' is {known}{code} in attempt {pod.attempt}, not {state}"
        )
    return True


def _write_report(tx: Transaction, pod: PodView, state: PodState, exit_code: int | None) -> None:
    code = "" if exit_code is None else f" with exit code {exit_code}"
    revision = tx.emit(
        "pod.reported",
        subject_kind="pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        message=f"node '{pod.node}' reports {state}{code}",
        body={"state": state, "exit_code": exit_code, "attempt": pod.attempt, "node": pod.node},
    )
    row = {
        "id": revision,
        "kind": FactKind.REPORT,
        "job_uid": pod.job_uid,
        "pod_uid": pod.uid,
        "attempt": pod.attempt,
        "pod_state": state,
        "exit_code": exit_code,
        "at": tx.now_s,
    }
    tx.connection.execute(sa.insert(facts), row)
    tx.tell(partial(tell_facts, (row,)), 1)
