"""How an agent is told to end: by a signal, which comes at any moment."""

import subprocess
import sys
import threading
from pathlib import Path

from client.agent_loop import Ending

ROOT = Path(__file__).parents[2]
ROUNDS = 20_000
PATIENCE_S = 120

AT_ANY_MOMENT = f"""
import signal
from client.agent_loop import Ending

ending = Ending()
signal.signal(signal.SIGALRM, lambda *_: ending.set())
for number in range({ROUNDS}):
    ending = Ending()
    signal.setitimer(signal.ITIMER_REAL, 2e-6 + number % 60 * 1e-6)
    while not ending.wait(0.00001):
        pass
print("ended")
"""


def test_signal_at_any_moment_of_a_wait_ends_it() -> None:
    words = [sys.executable, "-c", AT_ANY_MOMENT]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.returncode) == ("ended\n", 0), done.stderr


def test_wait_that_is_over_before_it_is_set_says_so() -> None:
    ending = Ending()
    assert not ending.wait(0.0)
    assert not ending.is_set


def test_once_set_no_wait_waits() -> None:
    ending = Ending()
    ending.set()
    assert [ending.wait(PATIENCE_S) for _ in range(3)] == [True] * 3


def test_another_thread_ends_a_wait() -> None:
    ending = Ending()
    timer = threading.Timer(0.05, ending.set)
    timer.start()
    assert ending.wait(PATIENCE_S)
    timer.join()
