"""A share of the long run of `tests.fuzz.run`: no 5xx, no hang, all as described."""

import pytest

from tests.fuzz.run import Report, fuzzer


def checked(report: Report) -> None:
    assert not report.faults, "\n".join(report.faults[:5])
    assert set(report.statuses) & {200, 201}
    assert set(report.statuses) & {400, 404, 422}


def test_some_hundred_requests_of_every_kind_find_no_fault() -> None:
    with fuzzer("", run_seed=7) as made:
        report = made.run(120)
    checked(report)
    # Files are drawn seldom: the long runs have them.
    assert {"schemathesis", "damaged: own", "damaged: kubernetes"} <= set(report.by_kind)


@pytest.mark.slow
@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_thousands_of_requests_find_no_fault_on_postgresql(database_url: str) -> None:
    with fuzzer(database_url, run_seed=11) as made:
        checked(made.run(4_000))


@pytest.mark.slow
def test_thousands_of_requests_find_no_fault() -> None:
    with fuzzer("", run_seed=13) as made:
        checked(made.run(4_000))
