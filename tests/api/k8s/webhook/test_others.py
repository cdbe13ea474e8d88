"""The webhook's answers about queues, pod groups, pods, hypernodes, cron jobs and flows."""

from typing import cast

import pytest

from api.k8s.volcano.queue_rules import HIERARCHY, WEIGHTS
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.site import Site
from tests.api.k8s.reviews import (
    SITE,
    job,
    manifests,
    patch_of,
    patched,
    queue,
    refusal,
    seen,
    task,
)

QUEUES = "/queues/validate"


def test_queue_gets_its_defaults() -> None:
    made = patched("/queues/mutate", queue(weight=0))
    assert made["spec"] == {"weight": 1, "reclaimable": True}
    bare: Tree = {"metadata": {"name": "lab"}}
    assert patched("/queues/mutate", bare)["spec"] == {"reclaimable": True, "weight": 1}
    assert patch_of("/queues/mutate", queue(reclaimable=False)) == []


def test_hierarchy_of_a_queue_begins_at_the_root() -> None:
    notes = {HIERARCHY: "eng/prod", WEIGHTS: "2/8"}
    made = patched("/queues/mutate", queue(annotations=notes, reclaimable=True))
    assert cast(Tree, made["metadata"])["annotations"] == {
        HIERARCHY: "root/eng/prod",
        WEIGHTS: "1/2/8",
    }


DEVICE = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (queue(capability={"cpu": -1}), "spec.capability.cpu"),
        (queue(capability={DEVICE: "1500m"}), f"spec.capability.{DEVICE}"),
        (queue(guarantee={"resource": {"cpu": 2}}), "spec.deserved.cpu"),
        (queue(deserved={"cpu": 4}, capability={"cpu": 2}), "spec.deserved.cpu"),
        (queue(annotations={HIERARCHY: "a/b", WEIGHTS: "1"}), "metadata.annotations"),
        (queue(annotations={HIERARCHY: "a", WEIGHTS: "0"}), "metadata.annotations"),
        (queue(parent="lab"), "spec.parent"),
        (queue(parent="nowhere"), "spec.parent"),
        (queue(capability={"cpu": "much"}), "spec.capability.cpu"),
        (queue(weight=70_000), "spec.weight"),
        (queue() | {"status": {"state": "Ajar"}}, "status.state"),
    ],
)
def test_queue_that_breaks_a_rule_is_denied_by_its_field(wrong: Tree, field: str) -> None:
    assert refusal(QUEUES, wrong).startswith(field)


def test_null_amounts_of_a_queue_count_as_left_out() -> None:
    nulls = queue(
        capability={"cpu": None, DEVICE: 8},
        deserved={"a": None},
        guarantee={"resource": {"a": None}},
    )
    assert refusal(QUEUES, nulls) == ""


def test_queue_fits_into_the_tree_above_and_below_it() -> None:
    top = queue("top", capability={"cpu": 10}, deserved={"cpu": 6})
    left = queue("left", parent="top", capability={"cpu": 8}, deserved={"cpu": 4})
    site = seen(top, left)
    assert refusal(QUEUES, queue("right", parent="top", deserved={"cpu": 2}), site=site) == ""
    too_much = queue("right", parent="top", deserved={"cpu": 3})
    assert "spec.deserved.cpu" in refusal(QUEUES, too_much, site=site)
    too_wide = queue("right", parent="top", capability={"cpu": 11})
    assert "spec.capability.cpu" in refusal(QUEUES, too_wide, site=site)
    smaller = queue("top", capability={"cpu": 7}, deserved={"cpu": 6})
    told = refusal(QUEUES, smaller, top, operation="UPDATE", site=site)
    assert "a queue below it has more: 8" in told


def test_parent_of_a_queue_has_no_pods_of_its_own() -> None:
    site = seen(queue("busy"), busy=3)
    assert "3 pods" in refusal(QUEUES, queue("new", parent="busy"), site=site)


def test_queue_lies_at_most_five_deep() -> None:
    chain = [queue("a"), *(queue(n, parent=p) for n, p in zip("bcde", "abcd", strict=True))]
    site = seen(*chain)
    assert refusal(QUEUES, queue("x", parent="d"), site=site) == ""
    assert "depth 6" in refusal(QUEUES, queue("x", parent="e"), site=site)


def test_amounts_of_the_root_queue_stay() -> None:
    old, new = queue("root"), queue("root", capability={"cpu": 1})
    assert "'root' cannot be changed" in refusal(QUEUES, new, old, operation="UPDATE")


def test_queue_is_deleted_only_when_nothing_depends_on_it() -> None:
    site = seen(queue("lab"), queue("team", parent="lab"))
    told = {
        name: refusal(QUEUES, None, queue(name), operation="DELETE", site=site)
        for name in ("default", "root", "nowhere", "lab", "team")
    }
    assert told["team"] == ""
    assert "always there" in told["default"]
    assert "always there" in told["root"]
    assert "no queue" in told["nowhere"]
    assert "team" in told["lab"]


# -- the others -----------------------------------------------------------------------------------


def _group(**spec: object) -> Tree:
    return {"metadata": {"name": "pg", "namespace": "lab"}, "spec": {"queue": "default"} | spec}


def test_pod_group_gets_the_queue_of_its_namespace() -> None:
    site = Site(SITE.queues, {"lab": "research"})
    made = patched("/podgroups/mutate", _group(), site=site)
    assert cast(Tree, made["spec"])["queue"] == "research"
    assert patch_of("/podgroups/mutate", _group()) == []
    assert patch_of("/podgroups/mutate", _group(queue="other"), site=site) == []


def test_pod_group_names_a_queue_that_is_open() -> None:
    path, tiers = "/podgroups/validate", {"highestTierAllowed": 1, "highestTierName": "rack"}
    assert refusal(path, _group()) == ""
    assert refusal(path, _group(queue="nowhere")).startswith("spec.queue")
    assert refusal(path, _group(networkTopology=tiers)).startswith("spec.networkTopology")
    inner = [{"name": "a", "networkTopology": tiers}]
    assert refusal(path, _group(subGroupPolicy=inner)).startswith("spec.subGroupPolicy[0]")


@pytest.mark.parametrize(
    ("notes", "allowed"),
    [
        ({}, True),
        ({"volcano.sh/jdb-min-available": "3"}, True),
        ({"volcano.sh/jdb-max-unavailable": "25%"}, True),
        ({"volcano.sh/jdb-max-unavailable": "0"}, False),
        ({"volcano.sh/jdb-max-unavailable": "100%"}, False),
        ({"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"}, False),
    ],
)
def test_pod_states_one_budget_of_a_legal_size(notes: Tree, *, allowed: bool) -> None:
    pod: Tree = {"metadata": {"annotations": notes}, "spec": {"schedulerName": "volcano"}}
    assert (refusal("/pods/validate", pod) == "") is allowed
    assert refusal("/pods/validate", pod | {"spec": {"schedulerName": "other"}}) == ""
    assert patch_of("/pods/mutate", pod) == []


def _hypernode(*members: Tree) -> Tree:
    return {"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": list(members)}}


@pytest.mark.parametrize(
    ("member", "field"),
    [
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}, "regexMatch.pattern"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "(?=a)"}}}, "regexMatch.pattern"),
        ({"type": "Node", "selector": {}}, "selector"),
        ({"type": "Rack", "selector": {}}, "type"),
        (
            {"type": "Node", "selector": {"exactMatch": {"name": "a"}, "labelMatch": {}}},
            "selector",
        ),
        ({"type": "Node", "selector": {"exactMatch": {"name": "a b"}}}, "exactMatch.name"),
    ],
)
def test_hypernode_with_a_bad_member_is_denied_by_its_field(member: Tree, field: str) -> None:
    path = "/hypernodes/validate"
    assert field in refusal(path, _hypernode(member)).partition(":")[0]
    assert refusal(path, _hypernode()).startswith("spec.members")


def test_published_hypernodes_are_judged_as_they_deserve() -> None:
    for name in ("docs/website-hypernode-09.yaml", "docs/website-hypernode-10.yaml"):
        for manifest in manifests(name):
            assert refusal("/hypernodes/validate", manifest) == ""
    for name in ("docs/hypernodes-tree-design.yaml", "docs/hypernodes-roce-nvlink-design.yaml"):
        for manifest in manifests(name):
            assert refusal("/hypernodes/validate", manifest).startswith("spec.members[0]")


def _cron(schedule: str, **spec: object) -> Tree:
    template = {"spec": job(task())["spec"]}
    return {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": schedule, "jobTemplate": template} | spec,
    }


@pytest.mark.parametrize("schedule", ["*/5 * * * *", "0 2 * * mon-fri", "@hourly", "0 0 1,15 * *"])
def test_cron_job_takes_the_schedules_of_cron(schedule: str) -> None:
    assert refusal("/cronjobs/validate", _cron(schedule)) == ""


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (_cron("* * * *"), "spec.schedule"),
        (_cron("61 * * * *"), "spec.schedule"),
        (_cron("*/0 * * * *"), "spec.schedule"),
        (_cron("TZ=UTC * * * * *"), "spec.schedule"),
        (_cron("@sometimes"), "spec.schedule"),
        (_cron("@hourly", timeZone="Local"), "spec.timeZone"),
        (_cron("@hourly", timeZone="Mars/Base"), "spec.timeZone"),
        (_cron("@hourly") | {"metadata": {"name": "x" * 53}}, "metadata.name"),
        (
            _cron("@hourly", jobTemplate={"spec": job(queue="no")["spec"]}),
            "spec.jobTemplate.spec.q",
        ),
    ],
)
def test_cron_job_that_breaks_a_rule_is_denied_by_its_field(wrong: Tree, field: str) -> None:
    assert refusal("/cronjobs/validate", wrong).startswith(field)


def _flow(*edges: tuple[str, list[str]]) -> Tree:
    flows = [{"name": name, "dependsOn": {"targets": targets}} for name, targets in edges]
    return {"metadata": {"name": "f"}, "spec": {"flows": flows}}


def test_job_flow_is_a_graph_without_rings() -> None:
    path = "/jobflows/validate"
    assert refusal(path, _flow(("a", []), ("b", ["a"]))) == ""
    assert refusal(path, _flow(("a", ["x"]))).startswith("spec.flows[0].dependsOn.targets")
    assert "wait for each other" in refusal(path, _flow(("a", ["b"]), ("b", ["a"])))
    assert "wait for each other" in refusal(path, _flow(("a", ["a"])))
    for manifest in manifests("examples/jobflow-JobFlow.yaml"):
        assert refusal(path, manifest) == ""
