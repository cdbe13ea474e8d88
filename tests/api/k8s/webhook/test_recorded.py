"""Reviews as an API server sends them, of each kind and operation, with the answers they get."""

import base64
import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from api.k8s.volcano.patch import apply_patch
from api.k8s.volcano.site import Site
from api.k8s.webhook.hooks import HOOKS
from api.k8s.webhook.review import answer_review
from scheduler.errors import SchedulerError
from tests.api.k8s.reviews import queue, seen
from tests.fuzz.junk import places

RECORDED: list[dict[str, Any]] = json.loads(Path("tests/golden/webhook/reviews.json").read_text())
SITE = Site(seen(queue("lab"), queue("team", parent="lab")).queues, {"research": "research"})


@pytest.mark.parametrize(
    "recorded", RECORDED, ids=[f"{n}{r['path']}" for n, r in enumerate(RECORDED)]
)
def test_recorded_review_gets_its_answer(recorded: dict[str, Any]) -> None:
    body = json.dumps(recorded["review"]).encode()
    assert answer_review(HOOKS[recorded["path"]], body, lambda: SITE) == recorded["answer"]


def test_every_path_has_a_recorded_review_that_is_allowed() -> None:
    allowed = {r["path"] for r in RECORDED if r["answer"]["response"]["allowed"]}
    denied = {r["path"] for r in RECORDED if not r["answer"]["response"]["allowed"]}
    assert allowed == set(HOOKS)
    assert denied == {path for path, hook in HOOKS.items() if hook.check is not None}


def test_object_that_was_patched_is_not_patched_again() -> None:
    """What the patches give is the defaulted object: asked about that, there is nothing to do."""
    patched = 0
    for recorded in RECORDED:
        response = recorded["answer"]["response"]
        if "patch" not in response:
            continue
        operations = json.loads(base64.b64decode(response["patch"]))
        review = json.loads(json.dumps(recorded["review"]))
        review["request"]["object"] = apply_patch(review["request"]["object"], operations)
        body = json.dumps(review).encode()
        again = answer_review(HOOKS[recorded["path"]], body, lambda: SITE)["response"]
        assert isinstance(again, dict)
        left = json.loads(base64.b64decode(again.get("patch", "W10=")))
        # Plugins are always written, as Volcano writes them.
        assert [o for o in left if o["path"] != "/spec/plugins"] == []
        patched += 1
    assert patched == 3


ODD: tuple[object, ...] = (
    *(None, True, 0, -1, 2**63, 10**40, 0.5, 1e308, "", "a", "-1", "9" * 40, "1e999", "\u0000"),
    *([], [None], ["a"] * 300, {}, {"a": None}, {"cpu": None}, {"a": "1"}),
)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(HOOKS))
def test_review_with_anything_in_any_place_is_answered(path: str) -> None:
    """One value at a time is another, in every place; what is no review is refused as a whole."""
    asked = 0
    for recorded in (one for one in RECORDED if one["path"] == path):
        for place in places(recorded["review"]):
            for odd in ODD if place else ():
                review = copy.deepcopy(recorded["review"])
                at: Any = review
                for key in place[:-1]:
                    at = at[key]
                at[place[-1]] = odd
                with suppress(SchedulerError):
                    answer_review(HOOKS[path], json.dumps(review).encode(), lambda: SITE)
                asked += 1
    assert asked > 500
