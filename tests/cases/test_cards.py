"""Faults that users of other schedulers reported, played against a real service.

The cards and their player are not a part of this project; without them these tests are skipped.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

CARDS = Path(__file__).parents[3] / "shared" / "cases"
SERVE = (
    f"{sys.executable} -m api.command serve --clock manual --port {{port}}"
    " --database-url sqlite:///{dir}/p.db"
)
NOT_YET: dict[str, str] = {}
"""Cards that need what is not built yet; one that passes all the same fails the test."""

NAMES = sorted(path.stem for path in CARDS.glob("*.yaml")) or ["none"]


@cache
def player() -> ModuleType:
    spec = importlib.util.spec_from_file_location("play", CARDS / "play.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["play"] = module
    spec.loader.exec_module(module)
    return module


def cards() -> list[object]:
    return [
        pytest.param(
            name, marks=pytest.mark.xfail(reason=f"needs {NOT_YET[name]}", raises=AssertionError)
        )
        if name in NOT_YET
        else name
        for name in NAMES
    ]


@pytest.mark.parametrize("name", cards())
def test_card_plays_as_it_should(name: str) -> None:
    path = CARDS / f"{name}.yaml"
    if not path.exists():
        pytest.skip("the scenario cards are not here")
    card = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert player().unknown_words(card) == []
    failures = [str(failure) for failure in player().play_fresh(card, SERVE)]
    assert failures == []
