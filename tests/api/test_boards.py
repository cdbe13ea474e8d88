"""Boards and alert rules in `deploy/` ask for metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.metrics import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
RULES = DEPLOY / "prometheus" / "alerts.yaml"

_NAME = re.compile(r"podyard_[a-z0-9_]+")
_LABELS = re.compile(r"(podyard_[a-z0-9_]+)\{([^}]*)\}")
_LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")


def known() -> dict[str, set[str]]:
    """Every series that is exposed, with its labels."""
    found: dict[str, set[str]] = {}
    for metric in Metrics().registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        # The library tells labels of what was observed only; its own list has all.
        for ending in endings.get(metric.type, ("",)):
            found[metric.name + ending] = set()
    for collector in Metrics().registry._collector_to_names:
        labels = set(getattr(collector, "_labelnames", ()))
        for name in found:
            if name.startswith(getattr(collector, "_name", "-")):
                found[name] |= labels | ({"le"} if name.endswith("_bucket") else set())
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Where each expression is, and it."""
    for path in BOARDS:
        board: dict[str, Any] = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def test_there_are_boards_and_rules() -> None:
    assert len(BOARDS) == 2
    assert len(list(expressions())) > 30


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_metric_that_is_asked_for_exists(where: str, expression: str) -> None:
    there = known()
    asked = set(_NAME.findall(expression))
    assert asked, where
    assert asked <= set(there), where
    for name, labels in _LABELS.findall(expression):
        assert set(_LABEL.findall(labels)) <= there[name], where


def test_every_metric_is_shown_somewhere() -> None:
    asked = set(_NAME.findall(" ".join(text for _, text in expressions())))
    unseen = {
        metric.name
        for metric in Metrics().registry.collect()
        if not any(name.startswith(metric.name) for name in asked)
    }
    assert unseen <= {"podyard_revision", "podyard_gangs_measured"}


def test_every_rule_says_what_it_means_and_what_to_do() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert set(rule["annotations"]) == {"summary", "description"}
            assert rule["labels"]["severity"] in {"page", "ticket"}


def test_names_follow_the_convention_of_prometheus() -> None:
    units = ("_seconds", "_ratio", "_bytes")
    for metric in Metrics().registry.collect():
        assert metric.name.startswith("podyard_")
        assert metric.documentation
        if metric.type == "histogram":
            assert metric.name.endswith(units)
        if metric.type == "counter":
            assert not metric.name.endswith("_total"), "the library adds it"
