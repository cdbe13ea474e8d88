from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.k8s.errors import StatusError
from api.k8s.patches import json_patch, merge_patch
from api.k8s.strategic import strategic_merge

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


def without_nulls(value: Any) -> Any:  # noqa: ANN401  # any value of JSON
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return value


def test_merge_patch_takes_null_for_gone_and_merges_maps() -> None:
    found = merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]})
    assert found == {"a": {"c": 2, "e": 3}, "d": [2]}


@given(OBJECTS, OBJECTS)
def test_merge_patch_is_done_when_it_was_done_once(target: Any, patch: Any) -> None:  # noqa: ANN401  # any objects of JSON
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS)
def test_merge_patch_of_nothing_is_the_patch_without_nulls(patch: Any) -> None:  # noqa: ANN401  # any object of JSON
    assert merge_patch({}, patch) == without_nulls(patch)


def test_json_patch_does_all_six_operations() -> None:
    patch = [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "/list/1", "value": "x"},
        {"op": "add", "path": "/list/-", "value": "z"},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/a", "path": "/c~1d"},
        {"op": "replace", "path": "/b", "value": {"~": 2}},
        {"op": "remove", "path": "/b/~0"},
    ]
    found = json_patch({"a": 1, "list": ["w", "y"]}, patch)
    assert found == {"b": {}, "c/d": 1, "list": ["w", "x", "y", "z"]}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ({"op": "remove", "path": "/nope"}, 422),
        ({"op": "replace", "path": "/nope", "value": 1}, 422),
        ({"op": "add", "path": "/nope/deeper", "value": 1}, 422),
        ({"op": "add", "path": "/list/9", "value": 1}, 422),
        ({"op": "add", "path": "/list/01", "value": 1}, 422),
        ({"op": "test", "path": "/a", "value": 2}, 422),
        ({"op": "move", "from": "/list", "path": "/list/0"}, 422),
        ({"op": "remove", "path": ""}, 422),
        ({"op": "replace", "path": "", "value": [1]}, 422),
        ({"op": "add", "path": "/a"}, 400),
        ({"op": "add", "path": "a", "value": 1}, 400),
        ({"op": "add", "path": 1, "value": 1}, 400),
        ({"op": "what", "path": "/a"}, 400),
        ("remove", 400),
    ],
)
def test_json_patch_refuses_what_cannot_be_done(operation: object, code: int) -> None:
    with pytest.raises(StatusError) as error:
        json_patch({"a": 1, "list": [1]}, [operation])
    assert error.value.code == code


def test_json_patch_changes_nothing_when_one_operation_fails() -> None:
    target = {"a": {"b": 1}}
    with pytest.raises(StatusError):
        json_patch(
            target,
            [{"op": "add", "path": "/a/c", "value": 2}, {"op": "remove", "path": "/nope"}],
        )
    assert target == {"a": {"b": 1}}


def test_strategic_merge_merges_containers_by_name_and_replaces_taints() -> None:
    target = {
        "spec": {
            "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
            "taints": [{"key": "old"}],
        }
    }
    patch = {
        "spec": {
            "containers": [{"name": "b", "image": "2"}, {"name": "c"}],
            "taints": [{"key": "new"}],
        }
    }
    assert strategic_merge(target, patch) == {
        "spec": {
            "containers": [
                {"name": "a", "image": "1"},
                {"name": "b", "image": "2"},
                {"name": "c"},
            ],
            "taints": [{"key": "new"}],
        }
    }


def test_strategic_merge_does_what_its_directives_say() -> None:
    target = {
        "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "finalizers": ["x"],
        "gone": {"a": 1},
        "whole": {"a": 1, "b": 2},
        "kept": {"a": 1, "b": 2},
        "podCIDRs": ["1", "2"],
    }
    patch = {
        "containers": [{"name": "a", "$patch": "delete"}],
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
        "finalizers": ["y"],
        "gone": {"$patch": "delete"},
        "whole": {"$patch": "replace", "c": 3},
        "kept": {"$retainKeys": ["b"], "b": 5},
        "$deleteFromPrimitiveList/podCIDRs": ["1"],
    }
    assert strategic_merge(target, patch) == {
        "containers": [{"name": "c"}, {"name": "b"}],
        "finalizers": ["x", "y"],
        "whole": {"c": 3},
        "kept": {"b": 5},
        "podCIDRs": ["2"],
    }


@pytest.mark.parametrize(
    "patch",
    [
        {"containers": [{"image": "no name"}]},
        {"a": {"$patch": "explode"}},
        {"$setElementOrder/containers": "all"},
        {"$retainKeys": 1},
    ],
)
def test_strategic_merge_refuses_directives_without_sense(patch: dict[str, object]) -> None:
    with pytest.raises(StatusError) as error:
        strategic_merge({"containers": [{"name": "a"}], "a": {}}, patch)
    assert error.value.code == 400


@given(OBJECTS, OBJECTS)
def test_strategic_merge_of_plain_maps_is_a_merge_patch(target: Any, patch: Any) -> None:  # noqa: ANN401  # any objects of JSON
    """Where there are no lists to be merged and no directives, both mean the same."""
    assert strategic_merge(target, patch) == merge_patch(target, patch)
