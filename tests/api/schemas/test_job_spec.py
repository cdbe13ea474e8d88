"""Requests to jobs: defaults are filled in, contradictions named."""

import pytest

from api.schemas.job import JobBody
from api.schemas.job_spec import read_job, resources_of
from scheduler.errors import JobError
from scheduler.model.job import AXES, IfNeverFits, Mode, Rule, Scope, Toleration
from scheduler.model.node import TaintEffect
from scheduler.model.resources import Resources


def body(**fields: object) -> JobBody:
    return JobBody.model_validate({"name": "a"} | fields)


def roles(**fields: object) -> JobBody:
    return body(roles=[{"name": "w", "replicas": 4, "gpus": 8} | fields])


def refused(request: JobBody) -> dict[str, str]:
    with pytest.raises(JobError) as error:
        read_job(request)
    return {p.path: p.message for p in error.value.problems}


def test_defaults_are_those_of_the_design() -> None:
    spec = read_job(body(parallelism={"tp": 8})).spec
    assert (spec.namespace, spec.queue, spec.priority) == ("default", "default", 0)
    assert spec.preemptible
    assert spec.if_never_fits is IfNeverFits.REFUSE
    assert spec.parallelism is not None
    assert spec.parallelism.order == AXES
    assert spec.failure.scope is Scope.GANG


def test_every_field_reaches_the_spec() -> None:
    request = body(
        namespace="ns",
        queue="q",
        priority=5,
        gpu="H100",
        parallelism={
            "tp": 2,
            "cp": 3,
            "pp": 4,
            "dp": 5,
            "ep": 6,
            "etp": 1,
            "order": "dp-tp-pp-cp-ep",
        },
        gpus_per_pod=2,
        cpus_per_pod=1.5,
        memory_gib_per_pod=0.5,
        resources_per_pod={"nvme": 2},
        topology=[{"group": "pp", "within": "leaf", "mode": "preferred"}],
        labels={"zone": "a"},
        tolerations=[{"key": "k", "value": "v", "effect": "NoExecute"}, {"operator": "Exists"}],
        nodes=["n1"],
        rails="required",
        patience_s=1,
        duration_s=2,
        time_limit_s=3,
        preemptible=False,
        if_never_fits="wait",
        spares=1,
        failure={"scope": "pod", "max_restarts": 3},
        run={"command": ["train"]},
    )
    spec = read_job(request).spec
    assert spec.parallelism is not None
    assert spec.parallelism.order == ("dp", "tp", "pp", "cp", "ep")
    assert spec.parallelism.world == 120
    assert spec.resources_per_pod == Resources(1_500, 512, (("nvme", 2),))
    assert spec.rules == (Rule("pp", "leaf", Mode.PREFERRED),)
    assert spec.tolerations == (
        Toleration("k", exists=False, value="v", effect=TaintEffect.NO_EXECUTE),
        Toleration(exists=True),
    )
    assert (spec.labels, spec.nodes, spec.spares) == ({"zone": "a"}, ("n1",), 1)
    assert (spec.patience_s, spec.duration_s, spec.time_limit_s) == (1, 2, 3)
    assert spec.rails_required
    assert not spec.preemptible
    assert spec.if_never_fits is IfNeverFits.WAIT
    assert (spec.failure.scope, spec.failure.max_restarts) == (Scope.POD, 3)
    assert spec.extra == {"run": {"command": ["train"], "env": {}}}


def test_axes_of_size_one_may_be_left_out_of_the_order() -> None:
    spec = read_job(body(parallelism={"tp": 2, "dp": 2, "order": "dp-tp"})).spec
    assert spec.parallelism is not None
    assert spec.parallelism.order == ("dp", "tp", "cp", "ep", "pp")


def test_axis_above_size_one_must_be_in_the_order() -> None:
    found = refused(body(parallelism={"tp": 2, "pp": 3, "order": "tp-dp"}))
    assert found == {"parallelism.order": "found 'tp-dp'; it must name pp too, whose size is 3"}


@pytest.mark.parametrize("order", ["tp-tp", "tp-xx"])
def test_order_names_each_axis_once(order: str) -> None:
    assert "at most once" in refused(body(parallelism={"order": order}))["parallelism.order"]


@pytest.mark.parametrize(
    ("fields", "minimum", "parts_min"),
    [
        ({}, 4, None),
        ({"min": 3}, 3, None),
        ({"parts": {"size": 2, "count": 2}}, 4, 2),
        ({"parts": {"size": 2, "count": 2, "min": 1}}, 2, 1),
        ({"min": 2, "parts": {"size": 2, "count": 2}}, 2, 1),
        ({"min": 2, "parts": {"size": 2, "count": 2, "min": 1}}, 2, 1),
    ],
)
def test_minimum_is_all_unless_stated(
    fields: dict[str, object], minimum: int, parts_min: int | None
) -> None:
    (role,) = read_job(roles(**fields)).spec.roles
    assert role.min == minimum
    assert (role.parts.min if role.parts else None) == parts_min


def test_minimum_that_contradicts_its_parts_is_refused() -> None:
    found = refused(roles(min=3, parts={"size": 2, "count": 2, "min": 1}))
    assert "parts.min x parts.size is 1 x 2 = 2" in found["roles[0].min"]


def test_minimum_that_cuts_a_part_is_refused() -> None:
    found = refused(roles(min=3, parts={"size": 2, "count": 2}))
    assert "multiple of parts.size" in found["roles[0].min"]


def test_fields_of_parallel_jobs_are_refused_with_roles() -> None:
    request = body(roles=[{"name": "w", "replicas": 1}], gpus_per_pod=8, cpus_per_pod=1)
    assert list(refused(request)) == ["gpus_per_pod", "cpus_per_pod"]


def test_rule_of_a_role_is_about_that_role() -> None:
    found = refused(roles(topology=[{"within": "rack"}, {"group": "v", "within": "rack"}]))
    assert list(found) == ["roles[0].topology[1].group"]


def test_rules_of_roles_and_parts_keep_their_groups() -> None:
    request = roles(
        topology=[{"within": "leaf", "mode": "preferred"}],
        parts={"size": 2, "count": 2, "topology": [{"within": "rack"}]},
    )
    (role,) = read_job(request).spec.roles
    assert role.rules == (Rule("w", "leaf", Mode.PREFERRED),)
    assert role.parts is not None
    assert role.parts.rules == (Rule("", "rack", Mode.REQUIRED),)


def test_toleration_without_key_must_say_exists() -> None:
    found = refused(body(parallelism={}, tolerations=[{"value": "x"}]))
    assert list(found) == ["tolerations[0].key"]


def test_shown_body_has_defaults_and_no_null() -> None:
    shown = read_job(roles(parts={"size": 2, "count": 2})).body
    (role,) = JobBody.model_validate(shown).roles
    assert role.parts is not None
    assert (role.min, role.parts.min) == (4, 2)
    assert shown["namespace"] == "default"
    assert None not in shown.values()


def test_shown_body_is_a_request_for_the_same_job() -> None:
    read = read_job(roles(parts={"size": 2, "count": 2, "min": 1}, cpu=1.5))
    assert read_job(JobBody.model_validate(read.body)) == read


@pytest.mark.parametrize(
    ("cpus", "milli"), [(0.1, 100), (1.1, 1_100), (2.3, 2_300), (0.0001, 1), (0.00151, 2)]
)
def test_cores_become_milli_rounded_up(cpus: float, milli: int) -> None:
    assert resources_of(cpus, 0, {}).cpu_milli == milli


def test_resources_of_amount_zero_are_left_out() -> None:
    assert resources_of(0, 0, {"b": 1, "a": 0, "c": 2}).other == (("b", 1), ("c", 2))
