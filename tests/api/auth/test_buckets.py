"""How often somebody may ask."""

import pytest

from api.auth import buckets
from api.auth.buckets import Buckets, TooFast


def test_bucket_lets_a_burst_through_and_then_a_rate() -> None:
    made = Buckets(rate_per_s=2, burst=3)
    for _ in range(3):
        made.take("anna", 100.0)
    with pytest.raises(TooFast, match="'anna' may ask 2 times a second; again in 1 s") as refused:
        made.take("anna", 100.0)
    assert refused.value.retry_after_s == 1
    made.take("anna", 100.5)
    with pytest.raises(TooFast):
        made.take("anna", 100.5)


def test_bucket_of_one_caller_is_not_that_of_another() -> None:
    made = Buckets(rate_per_s=0.1, burst=1)
    made.take("anna", 0.0)
    made.take("bob", 0.0)
    with pytest.raises(TooFast) as refused:
        made.take("anna", 1.0)
    assert refused.value.retry_after_s == 9


def test_bucket_holds_no_more_than_a_burst() -> None:
    made = Buckets(rate_per_s=10, burst=2)
    made.take("anna", 0.0)
    made.take("anna", 1_000.0)
    made.take("anna", 1_000.0)
    with pytest.raises(TooFast):
        made.take("anna", 1_000.0)


def test_rate_of_nothing_is_no_limit() -> None:
    made = Buckets(rate_per_s=0, burst=1)
    for _ in range(1_000):
        made.take("anna", 0.0)


def test_callers_are_forgotten_beyond_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "KNOWN_MAX", 2)
    made = Buckets(rate_per_s=0.001, burst=1)
    for name in ("a", "b", "c"):
        made.take(name, 0.0)
    made.take("a", 0.0)
    with pytest.raises(TooFast):
        made.take("c", 0.0)
