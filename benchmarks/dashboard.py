"""Dashboards on a large cluster: the overview, the first picture, panning, two hundred pollers.

What a browser does is measured with Debian's chromium, headless and without a GPU of its own; those
rows are left out where it, or playwright, is not installed.
"""

import asyncio
import importlib.util
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.clusters import inventory
from benchmarks.harness import Options, Row, percentile, row, run
from benchmarks.pollers import POLL_S, poll
from benchmarks.services import import_cluster, started

ROWS = ("overview_p99_ms", "overview_kb", "first_paint_s", "pan_fps", "pollers_200_core_percent")

NODES, NODES_SMALL = 12_500, 256
USED_SHARE = 0.85
POLLERS = 200
REQUESTS = 400
CHANGES_PER_S = 5.0
DRAG_STEPS = 300
LATE_S = 60.0
"""So long after its time a part of a measurement is given up."""

FRAMES = """() => {
  const frames = (window.frames_seen = []);
  const note = (time) => { frames.push(time); requestAnimationFrame(note); };
  requestAnimationFrame(note);
}"""

PAINTED = """async () => {
  const entry = () => performance.getEntriesByName('map-painted')[0];
  while (!entry()) await new Promise((done) => setTimeout(done, 20));
  const first = performance.getEntriesByName('first-contentful-paint')[0];
  return [entry().startTime / 1000, first ? first.startTime / 1000 : null];
}"""


def measure(options: Options) -> Iterator[Row]:
    """All rows on one service with a cluster that is mostly in use."""
    nodes = NODES_SMALL if options.small else NODES
    with (
        tempfile.TemporaryDirectory(prefix="podyard-bench-") as folder,
        started(f"sqlite:///{Path(folder, 'podyard.db')}") as (port, pid),
    ):
        _tell(f"{nodes} nodes come, and gangs")
        import_cluster(port, inventory(nodes))
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120.0) as client:
            gangs = fill(client, nodes)
            said: dict[str, object] = {"nodes": nodes, "gpus": nodes * 8, "gangs": gangs}
            if options.wants("overview_p99_ms", "overview_kb"):
                _tell(f"{REQUESTS} overviews, each after a change")
                yield from _overview(client, said)
            if options.wants("first_paint_s", "pan_fps"):
                _tell("a browser")
                yield from _browser(port, said)
            if options.wants("pollers_200_core_percent"):
                yield _pollers(client, port, pid, said, short=options.small)


def fill(client: httpx.Client, nodes: int) -> int:
    """Gangs of whole nodes until the wanted share is in use; returns how many."""
    chance, jobs, used = random.Random(1), list[dict[str, object]](), 0
    while used < nodes * USED_SHARE:
        size = chance.choice((1, 1, 2, 2, 4, 4, 8, 16, 32, 64))
        if used + size > nodes:
            break
        pp = 4 if size % 4 == 0 else 1
        sizes = {"tp": 8, "pp": pp, "dp": size // pp}
        jobs.append({"name": f"gang-{len(jobs):05d}", "parallelism": sizes})
        used += size
    for start in range(0, len(jobs), 500):
        client.post("/v1/jobs:batch", json={"jobs": jobs[start : start + 500]}).raise_for_status()
    ends_s = time.monotonic() + 300
    while client.get("/v1/overview").json()["jobs"].get("bound", 0) < len(jobs):
        if time.monotonic() > ends_s:
            raise SystemExit(f"not all placed: {client.get('/v1/overview').json()['jobs']}")
        time.sleep(0.25)
    return len(jobs)


def _overview(client: httpx.Client, said: dict[str, object]) -> Iterator[Row]:
    """Each request after a change, so that none is answered with what was made before."""
    seconds, floor, size = list[float](), list[float](), 0
    for i in range(REQUESTS):
        if i % 2:
            client.delete("/v1/namespaces/default/jobs/change")
        else:
            client.post("/v1/jobs", json={"name": "change", "parallelism": {"tp": 8}})
        began_s = time.perf_counter()
        answer = client.get("/v1/overview", headers={"Accept-Encoding": "identity"})
        seconds.append(time.perf_counter() - began_s)
        size = max(size, len(answer.content))
        began_s = time.perf_counter()
        client.get("/healthz")
        floor.append(time.perf_counter() - began_s)
        # Ends of the job are looked at before the next one of its name may come.
        client.get("/v1/namespaces/default/jobs/change?wait=bound&timeout_s=5")
    p99, least = percentile(seconds, 0.99) * 1e3, percentile(floor, 0.99) * 1e3
    yield row("overview_p99_ms", p99, "ms", least, **{"requests": REQUESTS} | said)
    yield row("overview_kb", size / 1e3, "kB", None, **said)


def _browser(port: int, said: dict[str, object]) -> Iterator[Row]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None or importlib.util.find_spec("playwright") is None:
        print("no chromium or no playwright: what a browser does is left out", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/#/map")
        painted_s, first_s = page.evaluate(PAINTED)
        words: dict[str, object] = {
            "map": "painted",
            "first_contentful_s": first_s,
            "window": "1400x900",
        }
        yield row("first_paint_s", painted_s, "s", None, **words | said)
        far = _frames(page)
        for _ in range(4):
            page.get_by_role("button", name="Zoom in").click()
        near = _frames(page)
        browser.close()
    words = {"whole_map": round(far), "zoomed_in": round(near), "stat": "median"}
    yield row("pan_fps", min(far, near), "frames/s", None, **words | said)


def _frames(page: Any) -> float:  # noqa: ANN401 - known where playwright is
    """Median frames a second while the map is dragged about and zoomed."""
    box = page.locator(".map canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    for step in range(DRAG_STEPS):
        page.mouse.move(x + 150 * ((step % 40) / 20 - 1), y + 80 * ((step % 30) / 15 - 1))
    page.mouse.up()
    for step in range(20):
        page.mouse.wheel(0, -60 if step < 10 else 60)
    times = page.evaluate("() => window.frames_seen")
    gaps = [b - a for a, b in pairwise(times) if b > a]
    return 1e3 / percentile(gaps, 0.5)


def _pollers(
    client: httpx.Client, port: int, pid: int, said: dict[str, object], *, short: bool
) -> Row:
    """What the pollers add to the time of the service: while nothing happens, and much does.

    Each of four parts takes a window of two polls; with pollers, first the time until all came.
    """
    seconds = POLL_S if short else 2 * POLL_S
    warm_s = POLL_S + 2.0

    def with_pollers(part: str) -> float:
        """Measured once all are there: that they come is no part of it."""
        _tell(f"pollers: {part}, {warm_s + seconds:.0f} s")
        with ThreadPoolExecutor(1) as beside:
            done = beside.submit(lambda: asyncio.run(poll(port, POLLERS, warm_s + seconds)))
            time.sleep(warm_s)
            share = _share(pid, seconds)
            done.result(timeout=LATE_S)
        return share

    _tell(f"pollers: the service alone, {seconds:.0f} s")
    alone_quiet = _share(pid, seconds)
    quiet = with_pollers("while nothing happens") - alone_quiet
    stop = threading.Event()
    changes = threading.Thread(target=_change, args=(port, stop), daemon=True)
    changes.start()
    try:
        _tell(f"pollers: changes alone, {seconds:.0f} s")
        alone = _share(pid, seconds)
        busy = with_pollers("with changes") - alone
    finally:
        stop.set()
        changes.join(LATE_S)
    words: dict[str, object] = {
        "polls_every_s": POLL_S,
        "quiet": f"{quiet:.1%}",
        "with_changes": f"{busy:.1%}",
        "changes_per_s": CHANGES_PER_S,
        "the_changes_alone": f"{alone:.1%}",
    }
    return row("pollers_200_core_percent", 100 * quiet, "%", None, **words | said)


def _tell(what: str) -> None:
    """Say what is being measured: some of it takes a minute."""
    print(f"dashboard: {what}", file=sys.stderr, flush=True)


def _change(port: int, stop: threading.Event) -> None:
    """Jobs that come and go."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        number = 0
        while not stop.wait(1 / CHANGES_PER_S):
            number += 1
            name = f"short-{number}"
            client.post("/v1/jobs", json={"name": name, "parallelism": {"tp": 8}})
            client.delete(f"/v1/namespaces/default/jobs/short-{number - 1}")


def _share(pid: int, seconds: float) -> float:
    """Processor time of a process for so long, in cores."""
    before, began_s = _cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (_cpu_s(pid) - before) / (time.monotonic() - began_s)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(run("dashboard", measure, ROWS))
