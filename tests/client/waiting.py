"""Waiting for what other processes do."""

import threading
import time
from collections.abc import Callable

PATIENCE_S = 90.0
"""Machines that run tests may be many times slower than ours."""


def until(holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Look again and again until something holds; fails when it does not in time."""
    pause = threading.Event()
    deadline_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline_s
        pause.wait(0.05)
