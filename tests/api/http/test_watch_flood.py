"""Ten thousand who want to watch: as many as there is room for do, others are told to come back."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from api.http.feed import WATCHERS_MAX
from tests.fuzz.served import Served

WATCHES = 10_000
GROWTH_BYTES_MAX = 400 * 1024 * 1024
"""Of all of them together: 40 KB each."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_watches_leave_the_service_well(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < WATCHES + 500:
        pytest.skip(f"a process may open {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, WATCHES + 500), hard))
    with Served(tmp_path) as served, ExitStack() as open_:
        before = served.rss_bytes()
        statuses: dict[bytes, int] = {}
        for _ in range(WATCHES):
            sock = open_.enter_context(
                socket.create_connection(("127.0.0.1", served.port), timeout=60)
            )
            head = f"GET /v1/watch HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n"
            sock.sendall(head.encode())
            said = sock.recv(12)[9:]
            statuses[said] = statuses.get(said, 0) + 1
        assert statuses == {b"200": WATCHERS_MAX, b"503": WATCHES - WATCHERS_MAX}
        assert served.ask("GET", "/healthz")[0] == 200
        body = {"name": "late", "roles": [{"name": "w", "replicas": 1, "gpus": 1}]}
        assert served.ask("POST", "/v1/jobs", body)[0] == 201
        assert served.rss_bytes() - before < GROWTH_BYTES_MAX
