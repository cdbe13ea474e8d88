"""Queues that `yardctl apply` reads: made where they are not there, changed where they differ."""

from collections.abc import Iterable, Mapping, Sequence

from client.cli.complaints import complain
from client.cli.files import QUEUE_DEFAULTS, Content, Document
from client.cli.session import Session
from client.cli.text import clean, out
from client.errors import ApiError, InputError
from client.shapes import Queue

NOT_FOUND = 404


def apply_queues(session: Session, documents: Sequence[Document], *, is_dry: bool) -> int:
    """Have the queues of these documents as they state them; the worst exit status.

    Queues above come before those below them, whatever their order in the files.
    """
    worst = 0
    for document in parents_first([d for d in documents if d.content is Content.QUEUE]):
        try:
            _apply_one(session, document, is_dry=is_dry)
        except (ApiError, InputError) as error:
            worst = max(worst, complain(error, document.source))
    return worst


def check_queues(documents: Iterable[Document]) -> None:
    """Refuse, before anything is sent, what no service would take.

    Raises:
        InputError: If a field is unknown, a name is missing or two documents have the same one.
    """
    sources: dict[str, str] = {}
    for document in documents:
        if document.content is not Content.QUEUE:
            continue
        name = document.value.get("name")
        if not isinstance(name, str) or not name:
            raise InputError(f"{document.source}: name: found {name!r}; a queue needs a name")
        unknown = [
            str(key) for key in document.value if key not in QUEUE_DEFAULTS and key != "name"
        ]
        if unknown:
            allowed = ", ".join(("name", *QUEUE_DEFAULTS))
            raise InputError(
                f"{document.source}: {unknown[0]}: queues have no such field; allowed are {allowed}"
            )
        if name in sources:
            raise InputError(
                f"{document.source}: queue '{name}' is stated in {sources[name]} already"
            )
        sources[name] = document.source


def parents_first(documents: Sequence[Document]) -> list[Document]:
    """The same documents, each behind that of its parent; else in their order.

    Of queues that are each other's parents the service says what is wrong.
    """
    by_name = {document.value.get("name"): document for document in documents}
    out_: dict[object, Document] = {}

    def put(document: Document, below: tuple[object, ...]) -> None:
        name, parent = document.value.get("name"), document.value.get("parent")
        if name in out_:
            return
        if isinstance(parent, str) and parent in by_name and parent not in below:
            put(by_name[parent], (*below, name))
        out_[name] = document

    for document in documents:
        put(document, (document.value.get("name"),))
    return list(out_.values())


def _apply_one(session: Session, document: Document, *, is_dry: bool) -> None:
    body = dict(document.value)
    name = str(body["name"])
    now = _known(session, name)
    changes = [] if now is None else _changes(now, body)
    if is_dry:
        said = "would be created" if now is None else "would change" if changes else "unchanged"
    else:
        said = "created" if now is None else "configured" if changes else "unchanged"
        if now is None or changes:
            session.client.put_queue(name, body)
    told = f": {', '.join(changes)}" if changes else ""
    out(clean(f"queue/{name} {said}{told}"))


def _known(session: Session, name: str) -> Queue | None:
    try:
        return session.client.queue(name)
    except ApiError as error:
        if error.status == NOT_FOUND:
            return None
        raise


def _changes(now: Queue, wanted: Mapping[str, object]) -> list[str]:
    """What differs, field by field: 'quota_gpus 64 -> 32'."""
    found = []
    for field, default in QUEUE_DEFAULTS.items():
        before, after = now.get(field), wanted.get(field, default)
        if _plain(before) != _plain(after):
            found.append(f"{field} {_said(before)} -> {_said(after)}")
    return found


def _plain(value: object) -> object:
    """A value to be compared: the order of names does not count."""
    return sorted(map(str, value)) if isinstance(value, list) else value


def _said(value: object) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={number}" for key, number in sorted(value.items()))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
