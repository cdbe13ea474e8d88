"""Paths and queries: what a request asks for."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from api.k8s.errors import StatusError, bad_request

PATHS = ("/api", "/apis", "/openapi/v2", "/openapi/v3", "/version", "/livez")

NAMESPACES = "namespaces"


def is_face(path: str) -> bool:
    """Whether a path is one of this API."""
    return any(path == p or path.startswith(f"{p}/") for p in PATHS)


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names.

    Attributes:
        plural: "" where the path ends at the group or version.
        namespace: None = none in the path: all of them, or a kind that has none.
    """

    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""


def read_path(path: str) -> Target:
    """`/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUB` and its shorter forms.

    Raises:
        StatusError: 404 if it has none of the forms.
    """
    parts = path.strip("/").split("/")
    group = ""
    if parts[0] == "apis":
        group = parts[1] if len(parts) > 1 else ""
        parts = parts[1:]
    version = parts[1] if len(parts) > 1 else ""
    rest = parts[2:]
    if "" in rest or len(path) > 2_000:
        raise no_such_path()
    namespace: str | None = None
    if rest[:1] == [NAMESPACES] and len(rest) > 2 and rest[2] not in NAMESPACE_PARTS:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise no_such_path()
    rest += [""] * (3 - len(rest))
    return Target(group, version, rest[0], namespace, rest[1] or None, rest[2])


NAMESPACE_PARTS = frozenset({"status", "finalize"})
"""Subresources of a namespace itself, where else the kind of an object in it stands."""


def no_such_path() -> StatusError:
    return StatusError(404, "the server could not find the requested resource", reason="NotFound")


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request; unknown ones are ignored, as Kubernetes does."""

    values: Mapping[str, str]
    dry_run: bool = False
    watch: bool = False
    manager: str = ""
    validation: str = "Ignore"
    force: bool | None = None
    limit: int | None = None
    timeout_s: float | None = None

    def text(self, name: str) -> str:
        return self.values.get(name, "")


VALIDATIONS = ("Ignore", "Warn", "Strict")


def read_query(params: QueryParams, default_validation: str = "Warn") -> Query:
    """The parameters that this API knows.

    Raises:
        StatusError: 400 if one of them is not as it should be.
    """
    values = {name: params[name] for name in params}
    dry_run = params.getlist("dryRun")
    check_dry_run(dry_run)
    validation = values.get("fieldValidation") or default_validation
    if validation not in VALIDATIONS:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation[:80]}": supported values: '
            + ", ".join(f'"{v}"' for v in VALIDATIONS)
        )
    manager = values.get("fieldManager", "")
    if len(manager) > 128 or not manager.isprintable():
        raise bad_request("fieldManager: must be printable and no longer than 128 characters")
    return Query(
        values,
        dry_run=bool(dry_run),
        watch=_bool(values, "watch") or False,
        manager=manager,
        validation=validation,
        force=_bool(values, "force"),
        limit=_number(values, "limit"),
        timeout_s=_number(values, "timeoutSeconds"),
    )


def check_dry_run(found: object) -> bool:
    """Whether nothing is to be written: `["All"]`.

    Raises:
        StatusError: 400 if it is anything else but empty.
    """
    if found in (None, [], [""]):
        return False
    if found != ["All"]:
        told = ", ".join(map(str, found)) if isinstance(found, list) else str(found)
        raise bad_request(f'dryRun: Unsupported value: "{told[:80]}": supported values: "All"')
    return True


def _bool(values: Mapping[str, str], name: str) -> bool | None:
    text = values.get(name)
    if text is None:
        return None
    if text in {"", "true", "1", "True", "TRUE", "t", "T"}:
        return True
    if text in {"false", "0", "False", "FALSE", "f", "F"}:
        return False
    raise bad_request(f'{name}: Invalid value: "{text[:80]}": must be true or false')


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise bad_request(f'{name}: Invalid value: "{text[:80]}": must be a whole number of 0 on')
    return int(text) or None
