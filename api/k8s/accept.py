"""What form of an answer a caller accepts."""

from dataclasses import dataclass

from api.k8s.errors import StatusError, bad_request
from api.k8s.request import Query
from api.k8s.table import INCLUDES, METADATA

JSON_TYPES = frozenset({"application/json", "*/*", "application/*", ""})
TEXT_TYPES = frozenset({"text/plain", "text/*"})


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer.

    Attributes:
        kind: `Table`, `PartialObjectMetadata`, or "" for the object itself.
        include: What of each object a table has beside its cells.
    """

    kind: str = ""
    include: str = METADATA


def accepted_form(accept: str, query: Query) -> Form:
    """The first form of an Accept header that there is here.

    Raises:
        StatusError: 406 if there is none of them, 400 if `includeObject` makes no sense.
    """
    include = query.text("includeObject") or METADATA
    if include not in INCLUDES:
        raise bad_request(
            f'includeObject: unsupported value: "{include[:80]}": supported values: '
            + ", ".join(INCLUDES)
        )
    for part in accept.split(","):
        kind, *parameters = (field.strip() for field in part.split(";"))
        if kind not in JSON_TYPES and kind not in TEXT_TYPES:
            continue
        found = dict(p.partition("=")[::2] for p in parameters)
        as_kind = found.get("as", "")
        if not as_kind:
            return Form("", include)
        if found.get("g") != "meta.k8s.io" or found.get("v") not in {"v1", "v1beta1"}:
            continue
        if as_kind in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}:
            return Form(as_kind.removesuffix("List"), include)
    raise StatusError(
        406,
        "only the following media types are accepted: application/json, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, "
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        reason="NotAcceptable",
    )
