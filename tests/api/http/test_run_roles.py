"""What the members of one role run, and what is filled in when they start."""

import pytest

from api.http.launch_env import filled_in, run_of
from api.store.views import PodView
from scheduler.model.lifecycle import PodState
from scheduler.model.resources import NOTHING
from tests.api.http.yard import Yard

RUN = {
    "command": ["all"],
    "env": {"A": "1", "B": "2"},
    "roles": {"ps": {"command": ["own"], "env": {"B": "3"}, "image": None}},
}


def member(role: str, index: int, node: str) -> PodView:
    return PodView(
        uid=f"{role}-{index}",
        job_uid="j",
        namespace="default",
        job="j",
        name=f"j-{role}-{index}",
        role=role,
        index=index,
        node=node,
        gpu_mask=0,
        first_rank=0,
        state=PodState.BOUND,
        attempt=1,
        exit_code=None,
        resources=NOTHING,
        revision=1,
    )


MEMBERS = [member("w", 1, "n2"), member("w", 0, "n1"), member("ps", 0, "n9")]


def test_role_runs_what_is_said_of_it_beside_the_environment_of_all() -> None:
    own = run_of("ps", RUN)
    assert (own["command"], own["env"]) == (["own"], {"A": "1", "B": "3"})
    assert run_of("w", RUN)["command"] == ["all"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("$(pod.index)", "1"),
        ("$(pod.index+4)", "5"),
        ("$(pod.name) on $(pod.node)", "j-w-1 on n2"),
        ("$(hosts.w)", "n1,n2"),
        ("$(count.w) of $(count.none)", "2 of 0"),
        ("$(peers.w:80)", '["n1:80", "n2:80"]'),
        ("$(HOME) $(pod.colour) $(hosts.) $$ $(pod.name+1)",) * 2,
    ],
)
def test_names_are_filled_in_and_others_stay(value: str, wanted: str) -> None:
    assert filled_in({"X": value}, MEMBERS[0], MEMBERS) == {"X": wanted}


def test_run_of_a_role_that_is_not_there_is_refused(yard: Yard) -> None:
    yard.load()
    body = {
        "name": "j",
        "roles": [{"name": "w", "replicas": 1}],
        "run": {"roles": {"v": {"command": ["x"]}}},
    }
    found = yard.refused(422, "POST", "/v1/jobs", body)
    assert "the roles are w" in found["run.roles.v"]
    run = {"roles": {"w": {"image": "i", "command": ["x"]}}}
    found = yard.refused(422, "POST", "/v1/jobs", body | {"run": run})
    assert list(found) == ["run.roles.w.image"]


@pytest.mark.parametrize(
    ("roles", "field"),
    [
        ({"w": {"after": {"x": 1}}}, "run.roles.w.after.x"),
        ({"w": {"after": {"v": 9}}}, "run.roles.w.after.v"),
        ({"w": {"after": {"v": 1}}, "v": {"after": {"w": 1}}}, "run.roles.w.after"),
        ({"w": {"after": {"w": 1}}}, "run.roles.w.after"),
    ],
)
def test_order_of_roles_that_cannot_be_is_refused(
    any_yard: Yard, roles: dict[str, object], field: str
) -> None:
    body = {
        "name": "j",
        "roles": [{"name": "w", "replicas": 2}, {"name": "v", "replicas": 2}],
        "run": {"roles": roles},
    }
    assert list(any_yard.refused(422, "POST", "/v1/jobs", body)) == [field]
