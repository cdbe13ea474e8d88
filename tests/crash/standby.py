"""What it costs to stand by: CPU time of a replica that leads and of one that follows along.

Run as `python -m tests.crash.standby --seconds 30`, on a server of its own; prints CPU seconds for
each second, at rest and under load.
"""

import argparse
import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from api.store.schema import migrate
from tests.crash.replicas import Prober, Replicas
from tests.crash.server import own_server
from tests.crash.takeovers import load

PROBERS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of a replica that stands by.")
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    with own_server() as server, TemporaryDirectory(prefix="podyard-standby-") as folder:
        migrate(server.url)
        load(server.url)
        with Replicas(server.url, Path(folder), 2) as replicas:
            replicas.start()
            _tell("at rest", replicas, server.url, seconds)
            # Only the one that leads is asked, so that the other has nothing to do but follow.
            replicas.avoid(1 - _leads(replicas, server.url), 1e9)
            probers = [Prober(replicas, f"probe-{number}") for number in range(PROBERS)]
            for prober in probers:
                prober.start()
            _tell("under load", replicas, server.url, seconds)
            for prober in probers:
                prober.stop()


def _leads(replicas: Replicas, url: str) -> int:
    with psycopg.connect(url) as connection:
        (holder,) = connection.execute("SELECT holder FROM leader").fetchone() or ("",)
    return [replicas.holder(number) for number in range(2)].index(holder)


def _tell(when: str, replicas: Replicas, url: str, seconds: float) -> None:
    before, revision = _used(replicas), _revision(url)
    threading.Event().wait(seconds)
    used = [(b - a) / seconds for a, b in zip(before, _used(replicas), strict=True)]
    rate = (_revision(url) - revision) / seconds
    leading = _leads(replicas, url)
    print(  # noqa: T201 - a figure of the run
        f"{when}, {rate:.0f} revisions/s: CPU {used[leading]:.3f} s/s of who leads, "
        f"{used[1 - leading]:.3f} s/s of who stands by"
    )


def _used(replicas: Replicas) -> list[float]:
    """CPU seconds of each replica so far."""
    found = []
    for service in replicas.services:
        words = Path(f"/proc/{service.process}/stat").read_text().rpartition(")")[2].split()
        found.append((int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"))
    return found


def _revision(url: str) -> int:
    with psycopg.connect(url) as connection:
        (revision,) = connection.execute("SELECT revision FROM counter").fetchone() or (0,)
    return int(revision)


if __name__ == "__main__":
    main()
