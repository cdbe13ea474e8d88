"""One service and one browser for all tests of the dashboard; a page of its own for each."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from api.store.schema import migrate, open_database
from tests.dashboard.stage import CLUSTER, Stage, stage

# Types of the browser are known only where it is installed.
Open = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium; these tests are skipped where it is not."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # In containers, where there is one user, the sandbox cannot be had.
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cluster with a job of 64 GPUs that runs, a small one, and one that waits."""
    url = f"sqlite:///{tmp_path_factory.mktemp('stage') / 'podyard.db'}"
    migrate(url)
    with closing(open_database(url)) as database, stage(database) as made:
        made.load(CLUSTER)
        model = {"params": 7e9, "layers": 32, "hidden": 4096, "seq": 4096}
        model |= {"micro_batch": 1, "global_batch": 64}
        made.submit(
            "llama",
            parallelism={"tp": 8, "pp": 2, "dp": 4},
            topology=[{"group": "pp", "within": "leaf", "mode": "required"}],
            model=model,
        )
        made.run("llama")
        made.submit("small", parallelism={"tp": 2})
        made.submit(
            "waits",
            wait=False,
            parallelism={"tp": 8, "pp": 4},
            topology=[{"group": "pp", "within": "rack", "mode": "required"}],
        )
        made.until_message("waits")
        yield made


@pytest.fixture
def visit(browser: Any, scene: Stage) -> Iterator[Open]:  # noqa: ANN401 - as said above
    """Opens the dashboard at a place; no page may have said anything in its console."""
    contexts: list[Any] = []
    said: list[str] = []

    def opened(place: str = "", **options: object) -> Any:  # noqa: ANN401 - as said above
        wanted = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"} | options
        context = browser.new_context(**wanted)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda m: said.append(m.text) if is_fault(m) else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.goto(f"{scene.url}/#/{place}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


def is_fault(message: Any) -> bool:  # noqa: ANN401 - as said above
    """Whether a line of the console is about the page; browsers note each 404 by themselves."""
    return message.type in {"error", "warning"} and "status of 404" not in message.text
