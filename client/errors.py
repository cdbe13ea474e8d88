"""What can go wrong between a client and the service."""

from collections.abc import Sequence

from client.shapes import FieldError, Job


class ClientError(Exception):
    """Anything a caller of the client may want to catch."""


class InputError(ClientError):
    """What the caller gave cannot be sent: an address, a name, a file."""


class ApiError(ClientError):
    """The service refused a request, or could not serve it.

    Attributes:
        status: HTTP status, 300 or above.
        title, detail: As in the problem document; `detail` may be empty.
        errors: Each wrong field; empty when the trouble is not with fields.
        method, path: The request that was refused.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        errors: Sequence[FieldError] = (),
        *,
        method: str = "",
        path: str = "",
    ) -> None:
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.method = method
        self.path = path
        super().__init__(f"{status}: {'; '.join(self.lines())}")

    def lines(self) -> list[str]:
        """One line for each wrong field, or the one line there is."""
        if self.errors:
            return [
                f"{error['path']}: {error['message']}" if error["path"] else error["message"]
                for error in self.errors
            ]
        return [self.detail or self.title]


class Unreachable(ClientError):
    """No answer came: no connection, a broken one, or silence past the time limit."""

    def __init__(self, server: str, why: str) -> None:
        self.server = server
        self.why = why
        super().__init__(f"cannot reach {server}: {why}")


class BadAnswer(ClientError):
    """Something answered, but not as a Podyard service does."""


class WaitedInVain(ClientError):
    """A job did not get where the caller waited for it to be.

    Attributes:
        job: As it was at the end of the wait.
        waited_for: What it should have been.
    """

    def __init__(self, job: Job, waited_for: str, timeout_s: float) -> None:
        self.job = job
        self.waited_for = waited_for
        name = f"{job.get('namespace', '')}/{job.get('name', '')}"
        state = job.get("state", "unknown")
        super().__init__(f"job '{name}' is {state}, not {waited_for}, after {timeout_s:g} s")
