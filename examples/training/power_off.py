"""Ends an agent and all that it runs at once, as if its machine had lost its power.

Give the folder that the agent was started with as `--state`.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path


def main(state: Path) -> None:
    """Kill the agent, the process beside each pod, and the ranks."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            of_agent = str(state) in words
            of_pod = any(word.startswith(f"{state}/pods/") for word in words)
            if (of_agent or of_pod) and int(path.parent.name) != os.getpid():
                os.kill(int(path.parent.name), signal.SIGKILL)
    for path in state.glob("pods/*/ranks.json"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(path.read_text(encoding="utf-8"))["group"], signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
