"""What a caller may see."""

from dataclasses import dataclass

import pytest

from api.auth import ANYBODY, Caller, visible
from scheduler.model.job import JobSpec


@dataclass(frozen=True)
class Thing:
    namespace: str


@pytest.mark.parametrize(
    ("caller", "namespace", "seen"),
    [
        (ANYBODY, "research", True),
        (Caller("anna", frozenset({"research", "vision"})), "vision", True),
        (Caller("anna", frozenset({"research"})), "vision", False),
        (Caller("nobody", frozenset()), "research", False),
    ],
)
def test_caller_sees_things_of_their_namespaces_alone(
    caller: Caller, namespace: str, *, seen: bool
) -> None:
    assert visible(caller, Thing(namespace)) is seen
    assert visible(caller, JobSpec(name="x", namespace=namespace)) is seen
