"""Rules that the pods of a gang do not keep, wherever they are."""

import pytest

from scheduler.model.job import JobSpec
from scheduler.place.kept import Member, broken_rules, states_rules
from tests.builders import make_node, make_topology
from tests.core.gangs import gang, parts, preferred, required, role, role_gang

OFF_THE_MAP = [Member(name, index, None) for name in ("", "m") for index in range(4)]
"""Pods that keep no rule at all."""

PLAIN = [gang(8, 1, 4), role_gang(role(replicas=4)), role_gang(role(parts=parts(2, 2)))]
STRICT = [
    gang(8, 1, 4, required("dp", "leaf")),
    gang(8, 1, 4, preferred("job", "leaf")),
    role_gang(role(replicas=4, rules=(required("m", "leaf"),))),
    role_gang(role(replicas=4), rules=(required("m", "leaf"),)),
    role_gang(role(replicas=4, parts=parts(2, 2, None, preferred("part", "leaf")))),
]


@pytest.mark.parametrize("spec", PLAIN + STRICT)
def test_gang_that_states_no_rule_breaks_none(spec: JobSpec) -> None:
    topology = make_topology([make_node(f"n{n}") for n in range(4)])
    broken = broken_rules(spec, topology, OFF_THE_MAP, 4)
    assert states_rules(spec) == (spec in STRICT) == bool(broken)
