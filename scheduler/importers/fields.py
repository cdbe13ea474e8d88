"""One mapping of an input, read field by field; what is wrong is noted and reading goes on."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from scheduler.importers.plain_values import Document, Value, shown
from scheduler.importers.refusals import Refusals

NAME_LENGTH_MAX = 253
"""As a DNS name."""

TEXT_LENGTH_MAX = 1_000
"""Free text, such as the source of a number."""

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_PLACE = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._:/@+-]*[A-Za-z0-9_])?")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_LABEL}")
_LABEL_VALUE = re.compile(rf"(?:{_LABEL})?")


def name_problem(name: str) -> str | None:
    """Why this cannot be the name of a node, type, set or level; None if it can."""
    return _name_problem(name, _NAME, "'.', '_' and '-'")


def place_problem(name: str) -> str | None:
    """Why this cannot be the name of a domain; None if it can. It may be like a path."""
    return _name_problem(name, _PLACE, "'.', '_', '-', ':', '/', '@' and '+'")


def _name_problem(name: str, pattern: re.Pattern[str], marks: str) -> str | None:
    if len(name) > NAME_LENGTH_MAX:
        found = f"the name {shown(name)} has {len(name)} characters"
        return f"{found}; at most {NAME_LENGTH_MAX} are allowed"
    if pattern.fullmatch(name) is None:
        found = f"{shown(name)} is not a name"
        return f"{found}; it has letters, digits, {marks}, and begins and ends with none but '_'"
    return None


def label_key_problem(key: str) -> str | None:
    """Why this cannot be the key of a label or taint, by the rules of Kubernetes."""
    if _LABEL_KEY.fullmatch(key):
        return None
    return (
        f"{shown(key)} is not a label's key; it has at most 63 letters, digits, '.', '_' and '-', "
        "after a DNS name and '/' if wanted"
    )


def label_value_problem(value: str) -> str | None:
    """Why this cannot be the value of a label or taint, by the rules of Kubernetes."""
    if _LABEL_VALUE.fullmatch(value):
        return None
    return (
        f"{shown(value)} is not a label's value; it has at most 63 letters, digits, '.', '_' and "
        "'-', and begins and ends with a letter or digit"
    )


def as_text(value: Value) -> str | None:
    """Text, or a whole number as it was written; None for all else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping and where it stands.

    A method that finds its field missing or null returns the default; if the field is wrong, it
    notes a problem at the field's path first.

    Attributes:
        path: As in `nodes[3]`; empty for the whole input.
    """

    values: dict[str, Value]
    path: str
    document: Document
    refusals: Refusals

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def at(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def refuse(self, key: str, message: str) -> None:
        """Note a problem of one field."""
        self.refusals.add(self.at(key), message, line=self.document.line_of(self.values) or 0)

    def wrong(self, key: str, wanted: str) -> None:
        """Note that a field holds something else than what is wanted."""
        self.refuse(key, f"must be {wanted}; found {shown(self.values.get(key))}")

    def allow(self, allowed: Collection[str]) -> None:
        """Refuse every other field."""
        for key in self.values:
            if key not in allowed:
                self.refuse(_short(key), f"unknown field; allowed are {', '.join(allowed)}")

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key)
        text = as_text(value)
        if value is None:
            return default
        if text is None or len(text) > TEXT_LENGTH_MAX or not text.isprintable():
            self.wrong(key, f"printable text of at most {TEXT_LENGTH_MAX} characters, in quotes")
            return default
        return text

    def name(self, key: str) -> str | None:
        """The name of a thing."""
        return self.checked(key, "a name", name_problem)

    def place(self, key: str) -> str | None:
        """The name of a domain."""
        return self.checked(key, "a name or null", place_problem)

    def checked(self, key: str, wanted: str, problem_of: Callable[[str], str | None]) -> str | None:
        """Text that keeps a rule.

        Args:
            wanted: What the text is, e.g. `a name`.
            problem_of: Why a text does not keep the rule, or None.
        """
        value = self.values.get(key)
        if value is None:
            return None
        text = as_text(value)
        if text is None:
            # Such as 1.10, on, true: read as something else, they would come back changed.
            self.wrong(key, f"{wanted}, in quotes if it looks like something else")
            return None
        problem = problem_of(text)
        if problem is not None:
            self.refuse(key, problem)
            return None
        return text

    def texts(self, key: str) -> list[str]:
        """One text or a list of them."""
        value = self.values.get(key)
        if value is None:
            return []
        found = [as_text(item) for item in (value if isinstance(value, list) else [value])]
        texts = [text for text in found if text is not None]
        if len(texts) != len(found):
            self.wrong(key, "text or a list of texts")
        return texts

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number of at least `low` and at most `high`."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(key, f"a whole number from {low} to {high}")
            return default
        return value

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """A number of at least `low` and at most `high`."""
        value = self.values.get(key)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            self.wrong(key, f"a number from {low:g} to {high:g}")
            return default
        return float(value)

    def mapping(self, key: str) -> "Fields":
        """The mapping in a field; empty if there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, "a mapping")
        return self._inner(value if isinstance(value, dict) else {}, self.at(_short(key)))

    def mappings(self, key: str) -> list["Fields"]:
        """The mappings of a list in a field; none if there is no list."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong(key, "a list of mappings")
            return []
        found: list[Fields] = []
        for index, item in enumerate(value):
            if isinstance(item, dict):
                found.append(self._inner(item, f"{self.at(key)}[{index}]"))
            else:
                self.refuse(f"{key}[{index}]", f"must be a mapping; found {shown(item)}")
        return found

    def _inner(self, values: dict[str, Value], path: str) -> "Fields":
        return Fields(values, path, self.document, self.refusals)


def _short(key: str) -> str:
    return key if len(key) <= 60 else f"{key[:57]}..."
