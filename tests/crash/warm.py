"""Starts `podyard` commands in processes of their own that have the imports behind them.

Reads the arguments of one command a line, as JSON; forks, and prints the process id.
"""

import json
import os
import signal
import sys
from importlib import import_module

from api.command import app

LATE = (
    "api.loop.runner",
    "api.main",
    "api.routes",
    "api.store.schema",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
)
"""What serving imports late, some of it by name."""


def main() -> None:
    for name in LATE:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets those that end
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            app(json.loads(line))
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
