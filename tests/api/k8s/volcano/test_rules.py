"""Small parts that the rules are made of: quantities, durations, schedules, schemas, patches."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.k8s.volcano.cron import cron_problem
from api.k8s.volcano.depends import on_cycle
from api.k8s.volcano.gang import minimums
from api.k8s.volcano.kinds_job import JOB_SPEC
from api.k8s.volcano.patch import apply_patch, pointer
from api.k8s.volcano.plugin_arguments import argument, flag_argument
from api.k8s.volcano.quantity import decimal, parse_duration, parse_quantity
from api.k8s.volcano.shape import filled, shape_problems, unknown_fields


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (2, Fraction(2)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("2.", Fraction(2)),
        (".5", Fraction(1, 2)),
        ("-3k", Fraction(-3_000)),
        ("1Gi", Fraction(1024**3)),
        ("1e3", Fraction(1_000)),
        ("1E", Fraction(10**18)),
        ("12E-1", Fraction(6, 5)),
        ("5u", Fraction(5, 10**6)),
    ],
)
def test_quantity_is_read_as_kubernetes_does(text: object, wanted: Fraction) -> None:
    assert parse_quantity(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "x", "1 Gi", "1gi", "--1", "1e99", "1" * 99, None, True, [], "1e", "0x10", "\u0661"],
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"quantity|exponents"):
        parse_quantity(text)


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "Ki", "M", "Gi"]))
def test_quantity_is_the_same_when_it_is_printed_and_read(number: int, suffix: str) -> None:
    found = parse_quantity(f"{number}{suffix}")
    assert parse_quantity(decimal(found)) == found


@given(st.text(max_size=80) | st.integers() | st.floats(allow_nan=True))
def test_every_value_is_a_quantity_or_is_refused(value: object) -> None:
    try:
        assert isinstance(parse_quantity(value), Fraction)
    except ValueError as error:
        assert str(error)  # noqa: PT017  # either way is right


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("1h2m3s", 3_723), ("1.5h", 5_400), ("0", 0), ("-2s", -2)]
)
def test_duration_is_read_as_go_does(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "1d", "10 m", "1h2", "9" * 60 + "h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.text(max_size=60))
def test_every_schedule_is_judged(text: str) -> None:
    assert isinstance(cron_problem(text), str)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4), max_size=6
    )
)
def test_names_have_an_order_unless_they_wait_for_each_other(edges: dict[str, list[str]]) -> None:
    known = {name: [b for b in before if b in edges] for name, before in edges.items()}
    ring = on_cycle(known)
    assert all(any(before in ring for before in known[name]) for name in ring)


def test_patch_sets_what_its_paths_name() -> None:
    value = {"a": {"b~/c": [1, 2]}}
    path = pointer("a", "b~/c") + "/1"
    assert path == "/a/b~0~1c/1"
    assert apply_patch(value, [{"op": "add", "path": path, "value": 9}]) == {"a": {"b~/c": [1, 9]}}
    assert apply_patch(value, [{"op": "replace", "path": "/d", "value": 1}]) == value | {"d": 1}
    assert value == {"a": {"b~/c": [1, 2]}}


def test_flags_are_read_in_every_way_they_are_written() -> None:
    words = ["--master=boss", "-port", "22", "--on", "--off=false"]
    assert argument(words, "master", "x") == "boss"
    assert argument(words, "port", "x") == "22"
    assert argument(words, "worker", "x") == "x"
    assert flag_argument(words, "on", default=False)
    assert not flag_argument(words, "off", default=True)


def test_schema_fills_in_defaults_and_takes_out_what_is_unknown() -> None:
    spec = {"tasks": [{"name": "a", "odd": 1, "minAvailable": None}], "nothing": 2}
    assert filled(JOB_SPEC, spec) == {
        "tasks": [{"name": "a"}],
        "queue": "default",
        "maxRetry": 3,
    }
    assert list(unknown_fields(JOB_SPEC, spec, "spec")) == ["spec.tasks[0].odd", "spec.nothing"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["tasks", "name", "template", "spec"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_value_that_has_no_problem_is_filled_in_without_another(value: object) -> None:
    if not list(shape_problems(JOB_SPEC, value, "")):
        assert not list(shape_problems(JOB_SPEC, filled(JOB_SPEC, value), ""))


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(0, 45),
)
def test_minimum_is_one_to_all_of_each_task_and_the_whole_of_the_job(
    sizes: list[tuple[int, int]], wanted: int
) -> None:
    tasks: list[dict[str, object]] = [
        {"name": f"t{i}", "replicas": replicas, "minAvailable": min(replicas, least)}
        for i, (replicas, least) in enumerate(sizes)
    ]
    total = sum(replicas for replicas, _ in sizes)
    wanted = min(wanted, total)
    found = minimums({"minAvailable": wanted}, tasks, {})
    for (replicas, _), least in zip(sizes, found.values(), strict=True):
        assert 1 <= least <= replicas
    # One of each task may be more than the job asks for, fewer it never is.
    assert (
        wanted <= sum(found.values()) <= max(wanted, sum(min(r, m) for r, m in sizes)) + len(sizes)
    )
