"""The problems of one input, collected so that a person sees many at a time."""

from scheduler.errors import InventoryError, Problem

PROBLEMS_MAX = 50
"""Problems told at once; a text with more is of another kind than it was taken for."""

WARNINGS_MAX = 20
"""Warnings of one kind that are spelt out."""


class Refusals:
    """Collects problems and raises them together."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    def add(self, path: str, message: str, *, line: int = 0) -> None:
        """Note a problem.

        Args:
            path: The field, e.g. `Nodes` or `metadata.name`.
            line: Counted from 1; 0 where it is not known.

        Raises:
            InventoryError: With all problems so far, once there are `PROBLEMS_MAX`.
        """
        self._problems.append(Problem(path, f"line {line}: {message}" if line else message))
        if len(self._problems) >= PROBLEMS_MAX:
            more = Problem("", f"these are the first {PROBLEMS_MAX} problems; there may be more")
            raise InventoryError((*self._problems, more))

    def add_all(self, error: InventoryError, path: str, *, line: int = 0) -> None:
        """Note the problems of a part, such as one hostlist, at this place."""
        for problem in error.problems:
            inner = f"{path}.{problem.path}" if problem.path else path
            self.add(inner, problem.message, line=line)

    def raise_if_any(self) -> None:
        """Stop here if something is wrong.

        Raises:
            InventoryError: With every problem noted.
        """
        if self._problems:
            raise InventoryError(self._problems)


def refuse(path: str, message: str, *, line: int = 0) -> InventoryError:
    """The error for one problem that makes all further reading useless; to be raised."""
    return InventoryError(Problem(path, f"line {line}: {message}" if line else message))


def first_of(warnings: list[str]) -> list[str]:
    """Warnings of one kind, bounded: the first ones and how many more."""
    if len(warnings) <= WARNINGS_MAX:
        return warnings
    return [*warnings[:WARNINGS_MAX], f"and {len(warnings) - WARNINGS_MAX} more like the last"]
