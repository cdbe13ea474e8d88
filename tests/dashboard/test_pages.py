"""What people see: the map, a job, why one waits, and changes as they happen."""

import re
from typing import Any

import pytest

from tests.dashboard.stage import Stage

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Visit = Any
"""Types of the browser are known only where it is installed."""

TEXT_OF_PIXELS = """() => {
  const canvas = document.querySelector('.map canvas'), context = canvas.getContext('2d');
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height), seen = new Set();
  for (let i = 0; i < data.length; i += 16) {
    seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  }
  return seen.size;
}"""


def map_is_drawn(page: Any) -> None:  # noqa: ANN401 - known once playwright is imported
    expect(page.get_by_label("What the marks mean")).to_contain_text("free", timeout=15_000)


def test_overview_tells_use_waits_and_what_would_fit(visit: Visit, scene: Stage) -> None:
    page = visit()
    tile = page.get_by_role("region", name="GPUs in use")
    expect(tile).to_contain_text("of 96")
    expect(page.get_by_role("region", name="Why gangs wait")).to_contain_text("default/waits")
    fits = page.get_by_role("table", name=re.compile("largest gang", re.IGNORECASE))
    expect(fits).to_contain_text("small, pods of 8")
    expect(page.locator("#cluster")).to_have_text("stage")
    expect(page.locator("#live")).to_have_text("live")


def test_map_draws_every_job_and_tells_who_holds_a_gpu(visit: Visit) -> None:
    page = visit("map")
    map_is_drawn(page)
    expect(page.get_by_label("What the marks mean")).to_contain_text("in use by 2 jobs")
    assert page.evaluate(TEXT_OF_PIXELS) > 6
    canvas = page.get_by_role("application")
    box = canvas.bounding_box()
    found = ""
    for step in range(1, 40):
        page.mouse.move(box["x"] + box["width"] * step / 40, box["y"] + box["height"] / 2)
        found = page.locator(".tip").inner_text() if page.locator(".tip").is_visible() else ""
        if "default/llama" in found:
            break
    assert re.search(r"GPU \d: rank \d+ of default/llama", found), found
    page.mouse.down()
    page.mouse.up()
    side = page.get_by_role("complementary")
    side.get_by_role("link", name="default/llama").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("default/llama")


@pytest.mark.parametrize("mode", ["queue", "health", "fragmentation", "power"])
def test_map_may_be_coloured_in_other_ways(visit: Visit, mode: str) -> None:
    page = visit("map")
    map_is_drawn(page)
    legend = page.get_by_label("What the marks mean")
    expect(legend).to_contain_text("in use by")
    page.get_by_label("Coloured by").select_option(mode)
    expect(legend).not_to_contain_text("in use by")
    assert page.evaluate(TEXT_OF_PIXELS) > 3


def test_map_zooms_until_ranks_can_be_read(visit: Visit) -> None:
    page = visit("map")
    map_is_drawn(page)
    zoom = page.get_by_role("button", name="Zoom in")
    for _ in range(4):
        zoom.click()
    page.get_by_role("button", name="Show all").click()


def test_job_page_shows_place_cost_and_groups(visit: Visit) -> None:
    page = visit("job/default/llama")
    expect(page.get_by_role("region", name="How it stands")).to_contain_text("64 in 8 pods")
    expect(page.get_by_role("region", name="Why")).to_contain_text("in its place")
    cost = page.get_by_role("table", name="Cost and spread by axis")
    for axis in ("tp tensor", "dp data", "pp pipeline"):
        expect(cost).to_contain_text(axis)
    expect(page.get_by_role("region", name="What its talk costs there")).to_contain_text("Regret")
    place = page.get_by_role("region", name="Where it lies")
    for axis, groups in (("tp 8", "8 groups of 8"), ("dp 4", "16 groups of 4")):
        place.get_by_role("button", name=axis).click()
        expect(place).to_contain_text(groups)
    expect(page.get_by_role("table", name="Pods", exact=True)).to_contain_text("llama-7")
    expect(page.get_by_role("region", name="Time line")).to_contain_text("job.bound")


def test_click_on_a_group_shows_its_ranks_alone(visit: Visit) -> None:
    page = visit("job/default/llama")
    place = page.get_by_role("region", name="Where it lies")
    place.get_by_role("button", name="pp 2").wait_for()
    canvas = place.get_by_role("application")
    canvas.focus()
    canvas.press("ArrowRight")
    # Stage 0 has the ranks 0 to 31, stage 1 the others: a pipeline is one of each.
    expect(place).to_contain_text(
        re.compile(r"Group \d+: ranks (\d|[12]\d|3[01]), (3[2-9]|[4-6]\d)")
    )


def test_job_that_waits_says_why_in_words_and_what_would_help(visit: Visit) -> None:
    page = visit("job/default/waits")
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("Not now")
    expect(why).to_contain_text("needs 4 pods of 8 GPUs each")
    expect(why).to_contain_text("Who holds what it lacks")
    expect(why).to_contain_text("What would help")
    expect(page.get_by_role("region", name="Where it lies")).to_be_hidden()


def test_queue_names_the_reason_of_each_wait(visit: Visit) -> None:
    page = visit("queue")
    row = page.get_by_role("row").filter(has_text="default/waits")
    expect(row).to_contain_text("pending")
    expect(row).to_contain_text(re.compile("no room|rules"))


def test_node_page_shows_each_gpu_and_its_rank(visit: Visit, scene: Stage) -> None:
    pod = scene.ok("GET", "/v1/pods?job=llama")["items"][0]
    page = visit(f"node/{pod['node']}")
    gpus = page.get_by_role("region", name="GPUs")
    expect(gpus.get_by_role("listitem")).to_have_count(8)
    expect(gpus).to_contain_text("default/llama")


def test_rack_page_shows_use_power_and_nodes(visit: Visit) -> None:
    page = visit("domain/rack/r3")
    expect(page.get_by_role("heading", level=1)).to_have_text("rack r3")
    expect(page.get_by_role("region", name="Use")).to_contain_text("kW")
    expect(page.get_by_role("table", name="Nodes")).to_contain_text("c4")
    page.goto(page.url.split("#")[0] + "#/level/1")
    expect(page.get_by_role("table")).to_contain_text("l2")


def test_curves_are_drawn_from_what_was_noted(visit: Visit) -> None:
    page = visit("curves")
    expect(page.locator("figure.chart").first).to_contain_text("GPUs", timeout=30_000)
    page.get_by_label("The last").select_option(label="1 week")
    expect(page.get_by_role("status").last).to_contain_text("10 min")


def test_page_shows_a_submission_without_a_reload(visit: Visit, scene: Stage) -> None:
    page = visit()
    expect(page.locator("#live")).to_have_text("live")
    expect(page.get_by_role("region", name="Latest events")).to_contain_text("default/waits")
    scene.submit("comes", parallelism={"tp": 2})
    try:
        events = page.get_by_role("region", name="Latest events")
        expect(events).to_contain_text("default/comes", timeout=8_000)
        expect(page.get_by_label("What the marks mean")).to_contain_text("3 jobs", timeout=8_000)
    finally:
        scene.ok("DELETE", "/v1/namespaces/default/jobs/comes")


def test_page_shows_a_cordon_and_a_fault_without_a_reload(visit: Visit, scene: Stage) -> None:
    page = visit("health")
    nodes = page.get_by_role("region", name="Nodes that take nothing new")
    expect(nodes).to_contain_text("All nodes take new gangs")
    scene.ok("POST", "/v1/nodes/c4/cordon", {"reason": "fan"})
    try:
        expect(nodes).to_contain_text("c4", timeout=8_000)
        expect(nodes).to_contain_text("cordoned")
        told = page.get_by_role("table", name="Open faults")
        scene.ok("POST", "/v1/nodes/c3/faults", {"xid": 79, "message": "fell off the bus"})
        expect(told).to_contain_text("fell off the bus", timeout=8_000)
    finally:
        scene.ok("POST", "/v1/nodes/c4/uncordon", {})


def test_find_goes_to_a_node_and_to_a_job(visit: Visit) -> None:
    page = visit()
    find = page.get_by_label("Find a job, node or domain")
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("/")
    expect(find).to_be_focused()
    options = page.locator("#find-list option")
    find.press_sequentially("c2", delay=50)
    expect(options.first).to_have_attribute("value", "c2")
    find.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("c2")
    find.fill("waits")
    find.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("default/waits")
