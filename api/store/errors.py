"""What the store cannot do, as exceptions; `api/problems.py` gives each its HTTP status."""


class StoreError(Exception):
    """Base of everything here."""


class NotFound(StoreError):
    """There is no such thing.

    Attributes:
        kind: `job`, `pod`, `node`, `queue`.
        name: As asked for; `namespace/name` where it has a namespace.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} '{name}' does not exist")


class Conflict(StoreError):
    """The request contradicts what is there.

    Attributes:
        path: Field of the request; empty for the whole request.
        message: What was asked, what was found, what is allowed.
    """

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(f"{path}: {message}" if path else message)


class QueueFull(StoreError):
    """As many jobs wait in a queue as may; it takes more when some have started.

    Attributes:
        path, message: As of `Conflict`.
    """

    def __init__(self, queue: str, limit: int, pending: int) -> None:
        self.path = "queue"
        self.message = (
            f"queue '{queue}' has a max_pending of {limit}, and {pending} jobs wait in it and below"
        )
        super().__init__(f"{self.path}: {self.message}")


class Gone(StoreError):
    """Events after this revision are no longer kept.

    Attributes:
        since: Asked for.
        oldest: The smallest value of `since` that is answered.
    """

    def __init__(self, since: int, oldest: int) -> None:
        self.since = since
        self.oldest = oldest
        super().__init__(
            f"events since revision {since} are no longer kept; the oldest start is {oldest}"
        )


class FutureRevision(StoreError):
    """A revision that has not been given yet."""

    def __init__(self, since: int, current: int) -> None:
        self.since = since
        self.current = current
        super().__init__(f"revision {since} lies ahead; the current revision is {current}")


class BadCursor(StoreError):
    """A cursor that this service did not give."""

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__(
            f"cursor '{cursor[:80]}' was not given by this service; leave it out to start anew"
        )


class Deposed(StoreError):
    """The epoch of the caller is over: another leader has taken over, nothing was written."""

    def __init__(self, epoch: int, current: int) -> None:
        self.epoch = epoch
        self.current = current
        super().__init__(
            f"epoch {epoch} is over, the current one is {current}; nothing was written"
        )


class LedgerRefused(StoreError):
    """The schema refused a write that would give something twice; nothing was written."""


class DatabaseSilent(StoreError):
    """The database answers nothing, and its connections are not ended either."""

    def __init__(self) -> None:
        super().__init__("the database has answered nothing for some seconds")


class StartupError(StoreError):
    """The service cannot start; the message says what to do about it."""


class SchemaError(StartupError):
    """The database is of another program, of a newer or older schema, corrupt or read-only."""
