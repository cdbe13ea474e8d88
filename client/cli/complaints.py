"""Errors as an operator wants them: one line of what is wrong, one of what to type next."""

import re

from client.cli.session import IN_VAIN, REFUSED, UNREACHABLE, USAGE
from client.cli.text import clean, note
from client.errors import (
    ApiError,
    BadAnswer,
    ClientError,
    InputError,
    Unreachable,
    WaitedInVain,
)

_NO_SERVICE = {502, 503, 504}
_JOB_PATH = re.compile(r"/v1/namespaces/([^/]+)/jobs/([^/]+)")


def complain(error: ClientError, source: str = "") -> int:
    """Write what went wrong to standard error; the exit code that says so.

    Args:
        source: Which of several files it was about; "" where there is no doubt.
    """
    for line in _lines(error):
        note(clean(f"{line} [{source}]" if source else line))
    if hint := _hint(error):
        note(f"  {clean(hint)}")
    return exit_code(error)


def exit_code(error: ClientError) -> int:
    """The exit code that an error ends a command with."""
    if isinstance(error, InputError):
        return USAGE
    if isinstance(error, WaitedInVain):
        return IN_VAIN
    if isinstance(error, Unreachable | BadAnswer):
        return UNREACHABLE
    if isinstance(error, ApiError) and error.status in _NO_SERVICE:
        return UNREACHABLE
    return REFUSED


def _lines(error: ClientError) -> list[str]:
    if isinstance(error, ApiError):
        return [f"Error ({error.status}): {line}" for line in error.lines()]
    return [f"Error: {error}"]


def _hint(error: ClientError) -> str | None:
    if isinstance(error, Unreachable):
        return "Is it running? Start one with: podyard serve; name another with --server."
    if isinstance(error, WaitedInVain):
        job = error.job
        return f"See: yardctl explain {job.get('namespace', '')}/{job.get('name', '')}"
    if isinstance(error, ApiError):
        return _api_hint(error)
    return None


def _api_hint(error: ApiError) -> str | None:
    job = _JOB_PATH.match(error.path)
    if error.status == 401:
        return (
            "Set PODYARD_TOKEN or PODYARD_TOKEN_FILE, or type: yardctl context set NAME "
            "--token-file FILE; whoever runs the service makes one: podyard token create"
        )
    if error.status == 403:
        return "See who you are and what you are bound to: yardctl whoami"
    if error.status == 404 and job:
        return f"See: yardctl get jobs -n {job[1]}"
    if error.status == 404 and error.path.startswith("/v1/nodes/"):
        return "See: yardctl get nodes"
    if error.status == 404 and error.path.startswith("/v1/queues/"):
        return "See: yardctl get queues"
    if error.status == 409 and job and error.path.endswith("/placement"):
        return f"See: yardctl explain {job[1]}/{job[2]}"
    return None
