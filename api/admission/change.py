"""A change of a job that was submitted: what it asks for then, if that still makes sense."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from api.schemas.job_change import JobPatch, RolePatch
from api.schemas.job_spec import ReadJob
from scheduler.errors import JobError, Problem
from scheduler.model.job import JobSpec, Role

PLAIN_FIELDS = ("priority", "queue", "duration_s", "time_limit_s")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Members of one role as a change says.

    Attributes:
        path: Of the entry in the request, with a dot behind it; empty at the top.
        fields: Of `RolePatch`, those that were given.
    """

    path: str
    fields: Mapping[str, int]


def changed_job(
    spec: JobSpec, body: Mapping[str, object], patch: JobPatch, *, placed: bool
) -> ReadJob:
    """The job as it would be; nothing but the change is looked at.

    Args:
        body: The request as it is shown, defaults in.
        placed: Whether its members have a place, which a higher minimum would call into question.

    Raises:
        JobError: If the change names a role that is not there, or one twice, or its numbers do not
            go together.
    """
    given = patch.model_fields_set
    fields: dict[str, object] = {f: getattr(patch, f) for f in PLAIN_FIELDS if f in given}
    shown = dict(body) | fields
    if "priority" in fields:
        shown.pop("priority_class", None)
    for name in [n for n, value in shown.items() if value is None]:
        del shown[name]
    wanted = _wanted(spec, patch)
    roles = tuple(_resized(role, wanted.get(role.name), placed=placed) for role in spec.roles)
    if roles != spec.roles:
        before = cast(list[dict[str, object]], body.get("roles", []))
        shown["roles"] = [_shown(was, role) for was, role in zip(before, roles, strict=False)]
    changed = replace(spec, **fields, roles=roles)  # type: ignore[arg-type]  # kinds are the schema's
    return ReadJob(changed, shown)


def _wanted(spec: JobSpec, patch: JobPatch) -> dict[str, Wanted]:
    """What the change says of each role that it names."""
    problems: list[Problem] = []
    found: dict[str, Wanted] = {}
    known = [role.name for role in spec.roles]
    for index, entry in enumerate(patch.roles):
        path = f"roles[{index}]."
        if entry.name not in known:
            problems.append(Problem(f"{path}name", _no_role(entry.name, known)))
        elif entry.name in found:
            problems.append(Problem(f"{path}name", f"'{entry.name}' is named twice"))
        found[entry.name] = Wanted(path, _numbers(entry))
    top = _numbers(patch)
    if top and len(known) == 1:
        _merge(found, known[0], top, problems)
    elif top:
        problems += [Problem(field, _which_role(known)) for field in top]
    if problems:
        raise JobError(problems)
    return found


def _numbers(entry: RolePatch | JobPatch) -> dict[str, int]:
    return {f: getattr(entry, f) for f in ("replicas", "min") if f in entry.model_fields_set}


def _merge(
    found: dict[str, Wanted], name: str, top: Mapping[str, int], problems: list[Problem]
) -> None:
    """Numbers at the top are those of the only role; twice is fine if both are alike."""
    named = found[name].fields if name in found else {}
    problems += [
        Problem(field, f"found {value} here and {named[field]} in roles; give one of the two")
        for field, value in top.items()
        if named.get(field, value) != value
    ]
    path = found[name].path if name in found else ""
    found[name] = Wanted(path, dict(named) | dict(top))


def _no_role(name: str, known: list[str]) -> str:
    if not known:
        return f"found '{name}'; the job has no roles, and its parallel sizes cannot be changed"
    return f"found '{name}'; the job's roles are {', '.join(known)}"


def _which_role(known: list[str]) -> str:
    if not known:
        return "is of a job with roles; the parallel sizes of this one cannot be changed"
    return f"the job has the roles {', '.join(known)}; say under `roles` of which"


def _resized(role: Role, wanted: Wanted | None, *, placed: bool) -> Role:
    if wanted is None:
        return role
    replicas = wanted.fields.get("replicas", role.replicas)
    least = wanted.fields.get("min")
    if least is None:
        # Who needs all of its members needs all of fewer too. More of a gang that has its place
        # may only join it: it goes on without them.
        follows = role.min == role.replicas and (replicas < role.replicas or not placed)
        least = replicas if follows else role.min
    if least > replicas:
        raise JobError(
            Problem(
                f"{wanted.path}min",
                f"found {least}; it must lie in 1 to replicas, {replicas}; give a new min with "
                f"the new replicas",
            )
        )
    if role.parts is None:
        return replace(role, replicas=replicas, min=least)
    size = role.parts.size
    problems = [
        Problem(
            f"{wanted.path}{field}",
            f"found {count}; parts start whole, so it must be a multiple of parts.size, {size}",
        )
        for field, count in (("replicas", replicas), ("min", least))
        if count % size
    ]
    if problems:
        raise JobError(problems)
    parts = replace(role.parts, count=replicas // size, min=least // size)
    return replace(role, replicas=replicas, min=least, parts=parts)


def _shown(was: Mapping[str, object], role: Role) -> dict[str, object]:
    """A role as it is shown, with its new numbers."""
    shown = dict(was) | {"replicas": role.replicas, "min": role.min}
    if role.parts is not None:
        parts = cast(Mapping[str, object], was["parts"])
        shown["parts"] = dict(parts) | {"count": role.parts.count, "min": role.parts.min}
    return shown
