"""Images of jobs: taken only where there is a launcher that runs them."""

from collections.abc import Sequence

from api.schemas.job import JobBody
from scheduler.errors import JobError, Problem


def check_image(body: JobBody, launcher: str) -> None:
    """Refuse an image that nobody would run.

    Raises:
        JobError: If the service has no launcher for it, or the job no command.
    """
    run = body.run
    if run is None:
        return
    _check(run.image, run.command, "run", launcher)
    for name, own in (run.roles or {}).items():
        _check(own.image, own.command or run.command, f"run.roles.{name}", launcher)


def _check(image: str | None, command: Sequence[str], path: str, launcher: str) -> None:
    if image is None:
        return
    if not launcher:
        raise JobError(
            Problem(
                f"{path}.image",
                f"found '{image}'; this service has no launcher that runs images. Whoever "
                "runs it can set PODYARD_LAUNCHER, as in 'apptainer exec --nv {image}'; or put "
                f"what starts the image into {path}.command",
            )
        )
    if not command:
        message = f"is required with {path}.image: what to run in it"
        raise JobError(Problem(f"{path}.command", message))
