"""What a caller may see and do."""

from dataclasses import dataclass

import pytest

from api.auth import ANYBODY, Caller, Forbidden, Right, Role, check, visible
from scheduler.model.job import JobSpec


@dataclass(frozen=True)
class Thing:
    namespace: str


def of(role: Role, *namespaces: str) -> Caller:
    return Caller("anna", role, frozenset(namespaces) if namespaces else None)


@pytest.mark.parametrize(
    ("caller", "namespace", "seen"),
    [
        (ANYBODY, "research", True),
        (of(Role.VIEWER, "research", "vision"), "vision", True),
        (of(Role.VIEWER, "research"), "vision", False),
        (Caller("nobody", namespaces=frozenset()), "research", False),
    ],
)
def test_caller_sees_things_of_their_namespaces_alone(
    caller: Caller, namespace: str, *, seen: bool
) -> None:
    assert visible(caller, Thing(namespace)) is seen
    assert visible(caller, JobSpec(name="x", namespace=namespace)) is seen


HAVE = {
    Role.VIEWER: {Right.READ},
    Role.SUBMITTER: {Right.READ, Right.SUBMIT},
    Role.OPERATOR: {Right.READ, Right.SUBMIT, Right.OPERATE},
    Role.ADMIN: {Right.READ, Right.SUBMIT, Right.OPERATE, Right.ADMIN, Right.REPORT},
    Role.AGENT: {Right.REPORT},
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("right", Right)
def test_role_has_its_rights_and_no_others(role: Role, right: Right) -> None:
    if right in HAVE[role] or right is Right.PUBLIC:
        check(of(role), right)
        return
    with pytest.raises(Forbidden, match=f"'anna' has the role {role}"):
        check(of(role), right)


def test_refusal_says_what_would_be_needed() -> None:
    with pytest.raises(Forbidden, match="right 'operate', which is of operator, admin"):
        check(of(Role.SUBMITTER), Right.OPERATE)


def test_caller_bound_to_namespaces_may_not_touch_others() -> None:
    bound = of(Role.SUBMITTER, "research")
    check(bound, Right.SUBMIT, namespace="research")
    check(bound, Right.READ)
    with pytest.raises(Forbidden, match=r"found namespace 'vision'.*namespace 'research'"):
        check(bound, Right.SUBMIT, namespace="vision")
    with pytest.raises(Forbidden, match="found namespace 'vision'"):
        check(bound, Right.READ, namespace="vision")


def test_operator_bound_to_namespaces_may_not_do_what_reaches_all() -> None:
    bound = of(Role.OPERATOR, "research")
    check(bound, Right.OPERATE, namespace="research")
    with pytest.raises(Forbidden, match="reaches all of them"):
        check(bound, Right.OPERATE)


def test_agent_speaks_and_reads_for_its_own_node() -> None:
    agent = Caller("n1", Role.AGENT, nodes=frozenset({"n1"}))
    check(agent, Right.REPORT, node="n1")
    check(agent, Right.READ, node="n1")
    for right in (Right.REPORT, Right.READ):
        with pytest.raises(Forbidden, match="found node 'n2'"):
            check(agent, right, node="n2")
    with pytest.raises(Forbidden, match="its own node"):
        check(agent, Right.READ)
