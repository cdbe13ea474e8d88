"""The demo, as `make demo` runs it."""

import os
import subprocess
import sys


def test_demo_counts_every_group_in_its_place() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "client.demo"],
        env={**os.environ, "DEMO_EXIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == "DEMO tp 128/128 pp 128/128 dp-leaf 64/64 rail-true 192/192"
    assert "   l1  aaaa aaaa bbbb bbbb cccc cccc dddd dddd" in lines
