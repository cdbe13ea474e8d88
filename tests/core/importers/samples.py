"""Descriptions of real clusters, and short ways to look at what an importer makes of one."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.errors import InventoryError
from scheduler.importers.hostlist import compress
from scheduler.model.node import Inventory, NodeRecord

SAMPLES = Path(__file__).parents[4] / "shared" / "data"
"""Files of other projects; not a part of this one, so tests that need them are skipped without."""


def sample(name: str) -> str:
    """The text of one file."""
    return sample_path(name).read_text(encoding="utf-8")


def sample_path(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"the sample {name} is not here")
    return path


def node(inventory: Inventory, name: str) -> NodeRecord:
    return next(record for record in inventory.nodes if record.name == name)


def domains(inventory: Inventory, level: str) -> dict[str | None, str]:
    """Domain -> its nodes, as a hostlist; under None those without one."""
    members: dict[str | None, list[str]] = defaultdict(list)
    for record in inventory.nodes:
        members[record.places.get(level)].append(record.name)
    return {name: compress(found) for name, found in members.items()}


def refusal(parse: Callable[[], object]) -> list[str]:
    """The problems of an input that must be refused, as `path: message`."""
    with pytest.raises(InventoryError) as caught:
        parse()
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def has_words(texts: object, *words: str) -> bool:
    """Whether one of several texts has all these words."""
    found = texts if isinstance(texts, list | tuple) else [texts]
    return any(all(word in str(text) for word in words) for text in found)
