"""The page of a service that asks who looks at it."""

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from api.auth import Caller, Role
from api.store.schema import migrate, open_database
from api.store.tokens import add_token
from tests.dashboard.looks import FAULTS
from tests.dashboard.stage import CLUSTER, stage

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_page_asks_for_a_token_shows_the_cluster_and_lets_go_again(
    browser: Any,  # noqa: ANN401 - known where the browser is installed
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'podyard.db'}"
    migrate(url)
    with closing(open_database(url)) as database, stage(database) as scene:
        scene.load(CLUSTER)
        made = add_token(database, Caller("anna", Role.VIEWER, frozenset({"a"})), now_s=time.time())
        while scene.client.get("/v1/overview").status_code != 401:
            threading.Event().wait(0.05)  # the service hears of its first token soon
        context = browser.new_context()
        page = context.new_page()
        page.goto(scene.url)
        form = page.locator("dialog.login")
        expect(form).to_be_visible()
        assert page.evaluate(FAULTS) == []
        page.keyboard.press("Escape")
        expect(form).to_be_visible()
        page.get_by_label("Token").fill("pyd_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(form.get_by_role("alert")).to_have_text("This token is not known, or it is over.")
        page.get_by_label("Token").fill(made.text)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#who")).to_contain_text("anna")
        expect(page.locator("#live")).to_have_text("live")
        expect(form).to_have_count(0)
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""
        assert page.evaluate(FAULTS) == []
        page.get_by_role("button", name="Log out").click()
        expect(form).to_be_visible()
        assert context.cookies() == []
        context.close()
