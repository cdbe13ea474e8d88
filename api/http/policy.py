"""The policy, pausing, and the clock of tests."""

from typing import Annotated

from fastapi import Depends

from api.clock import ManualClock
from api.http import example_bodies, examples, shapes
from api.http.answers import Json, answers, takes
from api.http.body import json_body, optional_json_body
from api.http.guard import NoSuchPath
from api.http.routing import Served, make_router
from api.http.service import Service
from api.schemas.node import Nothing
from api.schemas.service import ClockBody, ClockTime, Paused, PolicyBody
from api.store.policy import get_policy, put_policy
from scheduler.errors import Problem

router = make_router("policy")


@router.get(
    "/v1/policy",
    summary="Read the policy",
    responses=answers(PolicyBody, examples.POLICY, says="The policy as a whole."),
)
def read_policy(service: Served) -> Json:
    """Everything that may be tuned while the service runs."""
    return Json(get_policy(service.database))


@router.put(
    "/v1/policy",
    summary="Replace the policy",
    responses=answers(
        PolicyBody, examples.POLICY, 400, 413, 415, 422, says="The policy as it is now."
    ),
    openapi_extra=takes(PolicyBody, example_bodies.POLICY_BODIES),
)
def replace_policy(
    service: Served, body: Annotated[PolicyBody, Depends(json_body(PolicyBody))]
) -> Json:
    """Take a whole policy; a field that is left out is refused, not reset."""
    written = put_policy(service.database, body.model_dump(), now_s=service.clock.now_s())
    return Json(written)


@router.post(
    "/v1/scheduler/pause",
    summary="Place nothing new",
    responses=answers(Paused, examples.PAUSED, 400, 413, 415, 422, says="That it is paused."),
    openapi_extra=takes(Nothing, example_bodies.NOTHING_BODIES, required=False),
)
def pause(service: Served, body: Annotated[Nothing, Depends(optional_json_body(Nothing))]) -> Json:
    """What runs goes on; new gangs wait. Does nothing when paused already."""
    return _set_paused(service, paused=True)


@router.post(
    "/v1/scheduler/resume",
    summary="Place again",
    responses=answers(Paused, examples.RESUMED, 400, 413, 415, 422, says="That it goes on."),
    openapi_extra=takes(Nothing, example_bodies.NOTHING_BODIES, required=False),
)
def resume(service: Served, body: Annotated[Nothing, Depends(optional_json_body(Nothing))]) -> Json:
    """Undo a pause. Does nothing without one."""
    return _set_paused(service, paused=False)


@router.post(
    "/v1/test/clock",
    summary="Move the manual clock",
    responses=answers(
        ClockTime, examples.CLOCK, 400, 404, 413, 415, 422, says="What time it is now."
    ),
    openapi_extra=takes(ClockBody, example_bodies.CLOCK_BODIES),
)
def move_clock(service: Served, body: Annotated[ClockBody, Depends(json_body(ClockBody))]) -> Json:
    """Only with `--clock manual`, which is for tests; 404 without."""
    if not isinstance(service.clock, ManualClock):
        raise NoSuchPath(Problem("", "the clock moves by itself; start with --clock manual"))
    return Json({"now": shapes.rfc3339(service.clock.advance(body.advance_s))})


def _set_paused(service: Service, *, paused: bool) -> Json:
    policy = get_policy(service.database)
    if policy["paused"] is not paused:
        put_policy(service.database, policy | {"paused": paused}, now_s=service.clock.now_s())
    return Json({"paused": paused})
