"""For everybody: by keyboard alone, light and dark, on a phone, and whatever things are called."""

import re
from typing import Any

import pytest

from tests.dashboard.looks import FAULTS
from tests.dashboard.stage import CLUSTER, Stage

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Visit = Any
"""Types of the browser are known only where it is installed."""

PLACES = {
    "overview": "",
    "map": "map",
    "queue": "queue",
    "jobs": "jobs",
    "health": "health",
    "curves": "curves",
    "events": "events",
    "table": "level/1",
    "job": "job/default/llama",
    "waiting job": "job/default/waits",
    "node": "node/a1",
    "rack": "domain/rack/r1",
}

WIDTH = "[document.documentElement.scrollWidth, innerWidth]"


def settle(page: Any) -> None:  # noqa: ANN401 - known once playwright is imported
    expect(page.locator("#live")).to_have_text("live", timeout=15_000)
    page.locator("main h1").first.wait_for(state="attached")
    page.wait_for_timeout(400)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("place", PLACES)
def test_page_passes_the_accessibility_check(visit: Visit, place: str, theme: str) -> None:
    page = visit(PLACES[place], color_scheme=theme)
    settle(page)
    assert page.evaluate(FAULTS) == []


@pytest.mark.parametrize("place", PLACES)
def test_page_fits_a_phone(visit: Visit, place: str) -> None:
    page = visit(PLACES[place], viewport={"width": 400, "height": 800}, has_touch=True)
    settle(page)
    width, window = page.evaluate(WIDTH)
    assert width <= window
    assert page.evaluate(FAULTS) == []


def test_dark_follows_the_browser_and_can_be_chosen(visit: Visit) -> None:
    page = visit(color_scheme="dark")
    settle(page)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light colours").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    settle(page)
    assert page.evaluate(ground) == light
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(ground) == dark


def test_everything_is_reached_by_keyboard_alone(visit: Visit) -> None:
    page = visit()
    settle(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Map", exact=True).first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_title("Map · Podyard")
    canvas = page.get_by_role("application")
    for _ in range(25):
        page.keyboard.press("Tab")
        if canvas.evaluate("e => e === document.activeElement"):
            break
    expect(canvas).to_be_focused()
    page.keyboard.press("ArrowRight")
    said = page.locator(".map [aria-live]")
    expect(said).to_contain_text(re.compile(r"Node \w+, block b1, leaf l1, rack r1\. GPUs: "))
    first = said.inner_text()
    page.keyboard.press("ArrowDown")
    expect(said).not_to_have_text(first)
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"^[ab]\d"))
    page.go_back()
    page.get_by_role("application").wait_for()


def test_focus_stays_where_it_is_while_the_page_is_kept_current(visit: Visit, scene: Stage) -> None:
    page = visit()
    settle(page)
    waits = page.get_by_role("region", name="Why gangs wait")
    waits.get_by_role("link", name="default/waits").first.focus()
    scene.submit("comes", parallelism={"tp": 2})
    try:
        events = page.get_by_role("region", name="Latest events")
        expect(events).to_contain_text("default/comes", timeout=8_000)
        page.wait_for_timeout(2_500)
        expect(waits.get_by_role("link", name="default/waits").first).to_be_focused()
    finally:
        scene.ok("DELETE", "/v1/namespaces/default/jobs/comes")


LONG = "n" + "x" * 251 + "1"
TAG = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TURNED = "safe\u202egnp.exe\u2066"

HOSTILE = CLUSTER.replace("cluster: stage", f'cluster: "{TAG}"').replace(
    "nodes:\n",
    f'nodes:\n  - {{names: "{LONG}", type: small, rack: "{"R" * 253}", leaf: l2, block: b1}}\n',
)


def test_hostile_names_are_shown_harmlessly(visit: Visit, scene: Stage) -> None:
    answer = scene.client.post(
        "/v1/inventory", content=HOSTILE, headers={"Content-Type": "application/yaml"}
    )
    if answer.status_code == 422:
        # A cluster may not be called so; a reason, which people write, may hold anything.
        scene.load(HOSTILE.replace(f'cluster: "{TAG}"', "cluster: stage"))
    try:
        scene.ok("POST", f"/v1/nodes/{LONG}/cordon", {"reason": f"{TAG} {TURNED}"})
        for place in ("", "map", "health", "events", f"node/{LONG}", "level/2"):
            page = visit(place, viewport={"width": 400, "height": 800})
            settle(page)
            assert page.locator("main img, main script").count() == 0
            width, window = page.evaluate(WIDTH)
            assert width <= window, place
            assert "\u202e" not in page.locator("main").inner_text()
        page = visit(f"node/{LONG}")
        stands = page.get_by_role("region", name="How it stands")
        expect(stands).to_contain_text("<img src=x onerror=alert(1)>")
        expect(stands).to_contain_text("safe\\u202egnp.exe")
    finally:
        scene.load(CLUSTER)


@pytest.mark.parametrize(
    "place",
    [
        "job/default/%3Cimg%20src=x%3E",
        "node/%E2%80%AE",
        "domain/rack/nope",
        "job/%",
        "nowhere/at/all",
        "level/99",
        "job/default/" + "x" * 300,
    ],
)
def test_place_that_is_not_there_is_said_so(visit: Visit, place: str) -> None:
    page = visit("map")
    settle(page)
    page.evaluate("place => { location.hash = '#/' + place; }", place)
    page.get_by_role("heading", level=1).wait_for(state="attached")
    assert page.locator("main img").count() == 0
