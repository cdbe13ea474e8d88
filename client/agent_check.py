"""The check of a machine that is to be tested: a command, run beside everything else."""

import shlex
import subprocess
import time
from dataclasses import dataclass, field

AGAIN_S = 60.0
"""After a check that failed."""

OUTPUT_CHARS = 300


@dataclass(slots=True)
class Check:
    """Runs a command while the node is `testing`.

    Attributes:
        command: As a shell would split it; "" = there is none.
        passed: The last run went well.
        failure: What the last run that failed said; taken by whoever reports it.
    """

    command: str
    timeout_s: float = 600.0
    passed: bool = False
    failure: str = ""
    _running: subprocess.Popen[str] | None = None
    _began_at: float = field(default=float("-inf"))

    def go_on(self, health: str) -> None:
        """Begin, see how it went, or forget all of it once the node is not `testing` any more."""
        if health != "testing":
            self.passed = False
            if self._running is None:
                return
        now = time.monotonic()
        if self._running is None:
            if self.command and not self.passed and now - self._began_at >= AGAIN_S:
                self._begin(now)
        elif self._running.poll() is not None:
            out = self._running.communicate()[0]
            code, self._running = self._running.returncode, None
            self.passed = code == 0 and health == "testing"
            if code:
                self.failure = f"exit code {code}: {out.strip()[-OUTPUT_CHARS:]}"
        elif now - self._began_at > self.timeout_s:
            self._running.kill()

    def take_failure(self) -> str:
        """What went wrong, once."""
        failure, self.failure = self.failure, ""
        return failure

    def _begin(self, now: float) -> None:
        self._began_at = now
        try:
            self._running = subprocess.Popen(
                shlex.split(self.command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            self.failure = f"cannot be run: {error.strerror}"
