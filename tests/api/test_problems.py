"""The table of bad news."""

import inspect

import pytest

import api.store.errors
import scheduler.errors
from api.problems import INTERNAL, KINDS, SHOWN_MAX, document, document_of, kind_of
from scheduler.errors import InvariantError, JobError, Problem

NOT_FOR_REQUESTS = {"StoreError", "StartupError", "SchemaError", "InvariantError"}


def _errors(module: object) -> list[type[Exception]]:
    return [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Exception)
        and value.__name__ not in NOT_FOR_REQUESTS
    ]


@pytest.mark.parametrize("error", _errors(scheduler.errors) + _errors(api.store.errors))
def test_every_error_of_core_and_store_has_a_row(error: type[Exception]) -> None:
    assert error.__name__ in KINDS


def test_slugs_are_unique() -> None:
    slugs = [kind.slug for kind in KINDS.values()]
    assert len(set(slugs)) == len(slugs)


def test_subclass_has_the_row_of_its_nearest_base() -> None:
    class OddJobError(JobError):
        pass

    assert kind_of(OddJobError(Problem("a", "b"))) is KINDS["JobError"]


def test_unknown_error_tells_nothing_of_itself() -> None:
    told = document_of(InvariantError("the secret of node 3"))
    assert told["status"] == INTERNAL.status == 500
    assert "secret" not in str(told)


def test_problem_document_has_the_fields_of_rfc_9457() -> None:
    told = document_of(JobError([Problem("roles[0].min", "found 0"), Problem("", "odd")]))
    assert told == {
        "type": "urn:podyard:problem:invalid-job",
        "title": KINDS["JobError"].title,
        "status": 422,
        "detail": "roles[0].min: found 0",
        "errors": [
            {"path": "roles[0].min", "message": "found 0"},
            {"path": "", "message": "odd"},
        ],
    }


def test_conflict_tells_its_path() -> None:
    told = document_of(api.store.errors.Conflict("name", "is in use"))
    assert (told["status"], told["errors"]) == (409, [{"path": "name", "message": "is in use"}])


def test_only_so_many_problems_are_shown() -> None:
    errors = document(KINDS["JobError"], [Problem(str(i), "x") for i in range(80)])["errors"]
    assert isinstance(errors, list)
    assert len(errors) == SHOWN_MAX + 1
    assert errors[-1] == {"path": "", "message": "and 30 more"}


def test_database_that_does_not_answer_is_no_fault_of_the_request() -> None:
    class OperationalError(Exception):
        """As the driver calls it."""

    assert document_of(OperationalError("no route to host"))["status"] == 503
