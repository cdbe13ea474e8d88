"""The judge is judged: each kind of wrong answer is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.cluster.trial import Trial
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import Reason
from scheduler.model.node import FabricLevel
from scheduler.model.placement import NoFit, Placement, PodPlace
from scheduler.place.search import place
from tests.builders import make_type
from tests.core.gangs import gang, preferred, required, role, role_gang
from tests.oracle import audit as judge
from tests.oracle.cases import Case, CaseNode

Answer = Callable[[Placement], Placement | NoFit]

H100 = make_type("a8")


def case(spec: JobSpec, *, used: int = 0) -> Case:
    """Two leaves of four nodes; on the last node some GPUs are in use."""
    nodes = tuple(
        CaseNode(f"n{i}", H100, {"leaf": f"l{i // 4}"}, used=used if i == 7 else 0)
        for i in range(8)
    )
    fabric = {"leaf": FabricLevel(400.0, 1.0)}
    return Case(-1, ("leaf", "node"), "node", nodes, spec, fabric)


def answered(monkeypatch: pytest.MonkeyPatch, found: Case, change: Answer) -> judge.Audit:
    """The audit of an answer that was tampered with."""

    def tampered(trial: Trial, spec: JobSpec) -> Placement | NoFit:
        answer = place(trial, spec)
        assert isinstance(answer, Placement)
        return change(answer)

    monkeypatch.setattr(judge, "place", tampered)
    return judge.audit(found)


def moved(answer: Placement, *nodes: int) -> Placement:
    """The same pods on other nodes."""
    pods = (replace(pod, node_index=n) for pod, n in zip(answer.pods, nodes, strict=True))
    return replace(answer, pods=tuple(pods))


def refused(_: Placement) -> NoFit:
    return NoFit(never=False, code=Reason.ROOM, message="no")


def test_an_untouched_answer_has_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered(monkeypatch, case(gang(8, 2, 2, preferred("job", "leaf"))), lambda a: a)
    assert found.fault is None
    assert found.spreads_least
    assert found.over_optimum == 1.0


def test_a_refusal_of_what_fits_is_a_wrong_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, case(gang(8, 2, 2)), refused).fault is judge.Fault.VERDICT


def test_a_place_for_what_does_not_fit_is_a_wrong_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gang(8, 5, 1, required("pp", "leaf"))
    pods = tuple(PodPlace("", i, i, 0xFF, 8 * i) for i in range(5))
    monkeypatch.setattr(judge, "place", lambda trial, spec: Placement(pods, "a8", 8))
    assert judge.audit(case(spec)).fault is judge.Fault.VERDICT


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        (gang(8, 2, 2, required("job", "leaf")), lambda a: moved(a, 0, 1, 2, 4)),
        (gang(8, 2, 2, required("pp", "leaf")), lambda a: moved(a, 0, 1, 4, 5)),
        (gang(8, 2, 2), lambda a: moved(a, 0, 1, 2, 2)),
        (gang(8, 2, 2), lambda a: moved(a, 4, 5, 6, 7)),
    ],
    ids=["job in two leaves", "pipelines cut", "two pods on a node", "GPUs in use"],
)
def test_an_answer_that_breaks_a_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, spec: JobSpec, change: Answer
) -> None:
    assert answered(monkeypatch, case(spec, used=1), change).fault is judge.Fault.BROKEN


def test_a_member_left_out_for_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = role_gang(role("m", 4, gpus=8, min=1))
    found = answered(monkeypatch, case(spec), lambda a: replace(a, pods=a.pods[:3]))
    assert found.fault is judge.Fault.FEWER


def test_a_spread_wider_than_need_be_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gang(8, 2, 2, preferred("pp", "leaf"))
    found = answered(monkeypatch, case(spec), lambda a: moved(a, 0, 1, 4, 5))
    assert found.fault is None
    assert not found.spreads_least


def test_a_slower_layout_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two dp groups of four, cut between the leaves, though each fits one."""
    found = answered(monkeypatch, case(gang(8, 2, 4)), lambda a: moved(a, 0, 4, 1, 5, 2, 6, 3, 7))
    assert found.over_optimum is not None
    assert found.over_optimum > 1.01
    assert judge.tally([found]).slower == (found,)
