"""Objects that break a rule, as `Status` errors that name the object and every field."""

from collections.abc import Iterable

from api.k8s.errors import StatusError, invalid
from api.k8s.kinds import Kind, Obj
from api.k8s.problems import causes_of
from scheduler.errors import Problem


def refused(kind: Kind, obj: Obj, problems: Iterable[Problem]) -> StatusError:
    """422 with a cause for each problem."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return invalid(kind.kind, kind.group, str(name or ""), causes_of(problems))
