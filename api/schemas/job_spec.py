"""A submitted job to what the core decides on; contradictions inside the request end here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil

from api.schemas.job import JobBody, ModelBody, Parallelism, PartsBody, RoleBody
from scheduler.errors import JobError, Problem
from scheduler.model.job import (
    AXES,
    Failure,
    IfNeverFits,
    JobSpec,
    Mode,
    ModelShape,
    ParallelSizes,
    Parts,
    Role,
    Rule,
    Scope,
    Toleration,
)
from scheduler.model.node import TaintEffect
from scheduler.model.resources import Resources
from scheduler.parallel.shape import shape_problems

_CARRIED = ("checkpoint", "hooks", "run")
_ONLY_PARALLEL = (
    "gpus_per_pod",
    "cpus_per_pod",
    "memory_gib_per_pod",
    "resources_per_pod",
    "axis_weights",
    "segment",
)


@dataclass(frozen=True, slots=True)
class ReadJob:
    """A request that agrees with itself.

    Attributes:
        body: The request with its defaults, as it is shown later; nothing in it is null.
        ground: Of what moment that was which it was checked against; None = nothing was.
    """

    spec: JobSpec
    body: dict[str, object]
    ground: tuple[int, int, int, int] | None = None


def read_job(body: JobBody) -> ReadJob:
    """Fill in every default.

    Raises:
        JobError: With every contradiction inside the request, by its path.
    """
    problems = list(_contradictions(body))
    if problems:
        raise JobError(problems)
    return ReadJob(_spec_of(body), _shown(body))


def _contradictions(body: JobBody) -> Iterator[Problem]:
    """What the core could no longer see, because defaults are filled in before it looks."""
    if body.priority_class is not None and "priority" in body.model_fields_set:
        yield Problem("priority_class", "give this or priority, not both")
    if body.parallelism is not None:
        yield from _order_problems(body.parallelism)
        if body.model is not None:
            yield from _shape_problems(_model_of(body.model), body.parallelism)
    elif body.roles:
        for name in _ONLY_PARALLEL:
            if getattr(body, name) is not None:
                yield Problem(name, "is for jobs with parallelism; a role has gpus, cpu and memory")
    for index, role in enumerate(body.roles):
        yield from _role_problems(f"roles[{index}]", role)
    yield from _run_problems(body)
    for index, item in enumerate(body.tolerations):
        if item.key is None and item.operator == "Equal":
            yield Problem(
                f"tolerations[{index}].key", "is required unless the operator is 'Exists'"
            )


def _run_problems(body: JobBody) -> Iterator[Problem]:
    """Roles of `run` that are not there, or that wait for others in a ring."""
    roles = {} if body.run is None else body.run.roles or {}
    sizes = {role.name: role.replicas for role in body.roles}
    allowed = ", ".join(list(sizes)[:20]) or "none: the job has no roles"
    for name, own in roles.items():
        path = f"run.roles.{name}"
        if name not in sizes:
            yield Problem(path, f"there is no such role; the roles are {allowed}")
        for other, count in (own.after or {}).items():
            if other not in sizes:
                yield Problem(f"{path}.after.{other}", f"no such role; the roles are {allowed}")
            elif count > sizes[other]:
                yield Problem(f"{path}.after.{other}", f"found {count}; it has {sizes[other]}")
    left = {name: set(own.after or {}) for name, own in roles.items()}
    while ready := [name for name, before in left.items() if not before & left.keys()]:
        for name in ready:
            del left[name]
    if left:
        first = next(iter(left))
        message = f"roles wait for each other: {', '.join(sorted(left))}"
        yield Problem(f"run.roles.{first}.after", message)


def _shape_problems(model: ModelShape, asked: Parallelism) -> Iterator[Problem]:
    """At every size the gang may have; each field once."""
    # Orders do not matter here, and a wrong one is named for itself.
    sizes = _sizes_of(asked)
    told: set[str] = set()
    for dp in _dp_sizes(asked) or (sizes.dp,):
        for problem in shape_problems(model, replace(sizes, dp=dp)):
            if problem.path not in told:
                told.add(problem.path)
                yield problem


def _order_problems(sizes: Parallelism) -> Iterator[Problem]:
    named = sizes.order.split("-")
    if len(set(named)) != len(named) or not set(named) <= set(AXES):
        yield Problem(
            "parallelism.order",
            f"found '{sizes.order}'; it names each of {', '.join(AXES)} at most once",
        )
        return
    for axis in AXES:
        size = getattr(sizes, axis)
        size = size if isinstance(size, int) else max(size.sizes)
        if axis not in named and size > 1:
            yield Problem(
                "parallelism.order",
                f"found '{sizes.order}'; it must name {axis} too, whose size is {size}",
            )


def _role_problems(path: str, role: RoleBody) -> Iterator[Problem]:
    for index, rule in enumerate(role.topology):
        if rule.group not in (None, role.name):
            yield Problem(
                f"{path}.topology[{index}].group",
                f"found '{rule.group}'; a rule inside role '{role.name}' is about that role",
            )
    parts = role.parts
    if parts is None or role.min is None:
        return
    if parts.min is not None and role.min != parts.min * parts.size:
        yield Problem(
            f"{path}.min",
            f"found {role.min}; parts.min x parts.size is {parts.min} x {parts.size} = "
            f"{parts.min * parts.size}; give one of the two, or equal numbers",
        )
    if parts.min is None and role.min % parts.size:
        yield Problem(
            f"{path}.min",
            f"found {role.min}; parts start whole, so it must be a multiple of parts.size, "
            f"{parts.size}",
        )


def _spec_of(body: JobBody) -> JobSpec:
    return JobSpec(
        name=body.name,
        namespace=body.namespace,
        queue=body.queue,
        priority=body.priority,
        gpu=body.gpu,
        parallelism=_sizes_of(body.parallelism) if body.parallelism else None,
        gpus_per_pod=body.gpus_per_pod,
        resources_per_pod=resources_of(
            body.cpus_per_pod or 0, body.memory_gib_per_pod or 0, body.resources_per_pod or {}
        ),
        roles=tuple(_role_of(role) for role in body.roles),
        rules=tuple(Rule(r.group, r.within, Mode(r.mode)) for r in body.topology),
        labels=dict(body.labels),
        tolerations=tuple(
            Toleration(t.key, t.operator == "Exists", t.value, t.effect and TaintEffect(t.effect))
            for t in body.tolerations
        ),
        nodes=tuple(body.nodes),
        rails_required=body.rails == "required",
        exclusive=body.exclusive,
        segment=body.segment,
        dp_sizes=_dp_sizes(body.parallelism) if body.parallelism else (),
        preemptible=body.preemptible,
        preempts=body.preempts,
        if_never_fits=IfNeverFits(body.if_never_fits),
        patience_s=body.patience_s,
        duration_s=body.duration_s,
        time_limit_s=body.time_limit_s,
        spares=body.spares,
        failure=Failure(
            Scope(body.failure.scope),
            body.failure.max_restarts,
            body.failure.backoff_s,
            body.failure.hold_s,
            body.failure.lost_after_s,
        ),
        model=_model_of(body.model) if body.model else None,
        axis_weights=(body.axis_weights.model_dump(exclude_none=True) if body.axis_weights else {}),
        grace_s=(body.checkpoint.grace_s if body.checkpoint and body.checkpoint.hook else None),
        extra=body.model_dump(mode="json", include=set(_CARRIED), exclude_none=True),
    )


def _sizes_of(sizes: Parallelism) -> ParallelSizes:
    named = sizes.order.split("-")
    return ParallelSizes(
        tp=sizes.tp,
        cp=sizes.cp,
        pp=sizes.pp,
        dp=sizes.dp if isinstance(sizes.dp, int) else max(sizes.dp.sizes),
        ep=sizes.ep,
        etp=sizes.etp,
        order=(*named, *(axis for axis in AXES if axis not in named)),
    )


def _dp_sizes(sizes: Parallelism) -> tuple[int, ...]:
    """Ascending; empty where there is no choice."""
    return () if isinstance(sizes.dp, int) else tuple(sorted(set(sizes.dp.sizes)))


def _model_of(model: ModelBody) -> ModelShape:
    return ModelShape(**model.model_dump())


def _role_of(role: RoleBody) -> Role:
    return Role(
        name=role.name,
        replicas=role.replicas,
        min=minimum_of(role),
        gpus=role.gpus,
        resources=resources_of(role.cpu, role.memory, role.resources),
        one_per_node=role.one_per_node,
        rules=tuple(Rule(role.name, r.within, Mode(r.mode)) for r in role.topology),
        parts=_parts_of(role, role.parts) if role.parts else None,
        ring=role.ring,
        decides=role.decides,
    )


def _parts_of(role: RoleBody, parts: PartsBody) -> Parts:
    return Parts(
        size=parts.size,
        count=parts.count,
        min=minimum_of(role) // parts.size,
        rules=tuple(Rule("", r.within, Mode(r.mode)) for r in parts.topology),
    )


def minimum_of(role: RoleBody) -> int:
    """Members of a role that must run together; all unless the request says otherwise."""
    if role.min is not None:
        return role.min
    if role.parts is not None and role.parts.min is not None:
        return role.parts.min * role.parts.size
    return role.replicas


def resources_of(cpus: float, memory_gib: float, other: Mapping[str, int]) -> Resources:
    """Cores and GiB to the core's units, rounded up; amounts of 0 are left out."""
    return Resources(
        cpu_milli=_ceil(cpus * 1_000),
        memory_mib=_ceil(memory_gib * 1_024),
        other=tuple(sorted((name, amount) for name, amount in other.items() if amount)),
    )


def _ceil(amount: float) -> int:
    # 2.3 x 1,000 is 2299.9999999999995 in doubles, and 1.1 x 1,000 is 1100.0000000000002.
    return ceil(round(amount, 6))


def _shown(body: JobBody) -> dict[str, object]:
    shown: dict[str, object] = body.model_dump(mode="json", exclude_none=True)
    if body.priority_class is not None:
        del shown["priority"]
    if body.roles:
        shown["roles"] = [_shown_role(role) for role in body.roles]
    return shown


def _shown_role(role: RoleBody) -> dict[str, object]:
    shown: dict[str, object] = role.model_dump(mode="json", exclude_none=True)
    shown["min"] = minimum_of(role)
    if role.parts is not None:
        parts: dict[str, object] = role.parts.model_dump(mode="json", exclude_none=True)
        shown["parts"] = parts | {"min": minimum_of(role) // role.parts.size}
    return shown
