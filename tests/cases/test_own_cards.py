"""Failures of machines and what becomes of gangs, as scenario cards of our own.

They have the words of the cards in `test_cards.py`, whose player is not a part of this project;
without it these tests are skipped.
"""

from pathlib import Path

import pytest
import yaml

from tests.cases.test_cards import CARDS, SERVE, player

OWN = Path(__file__).parent / "own"
NAMES = sorted(path.stem for path in OWN.glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_own_card_plays_as_it_should(name: str) -> None:
    if not (CARDS / "play.py").exists():
        pytest.skip("the player of the cards is not here")
    card = yaml.safe_load((OWN / f"{name}.yaml").read_text(encoding="utf-8"))
    assert card["id"] == name
    assert player().unknown_words(card) == []
    failures = [str(failure) for failure in player().play_fresh(card, SERVE)]
    assert failures == []
