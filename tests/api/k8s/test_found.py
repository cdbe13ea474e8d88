"""Requests that once made the service fail, found by sending very many wrong ones."""

import pytest

from tests.api.http.yard import Yard
from tests.api.k8s.asking import JOBS, JSON_PATCH, PODS, job, pod, send


@pytest.mark.parametrize("odd", [[], {}, ["move"], {"value": "add"}, None, 7, "", "spam"])
def test_operation_of_an_odd_name_is_refused(any_yard: Yard, odd: object) -> None:
    send(any_yard, "POST", JOBS, job("odd"))
    body = [{"op": odd, "path": "/metadata/labels", "value": {}}]
    answer = send(any_yard, "PATCH", f"{JOBS}/odd", body, kind=JSON_PATCH)
    assert answer.status_code == 400
    assert "allowed are add, remove" in answer.json()["message"]


@pytest.mark.parametrize("odd", ["text", 7, ["a"], {"name": ["alone"]}, {"name": {}}])
def test_eviction_of_an_odd_name_is_refused(any_yard: Yard, odd: object) -> None:
    send(any_yard, "POST", PODS, pod("alone"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": odd}
    answer = send(any_yard, "POST", f"{PODS}/alone/eviction", body)
    assert answer.status_code == 400
    assert "an Eviction of" in answer.json()["message"]
