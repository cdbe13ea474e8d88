"""The order in which people read names with numbers: n2 before n10."""

import re

DIGITS = re.compile(r"([0-9]+)")

_DIGITS_MAX = 1_000
"""Digits compared as a number; Python refuses to read more than some thousand."""


def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key of a name: its digit runs compare as numbers, the rest as text.

    The name itself comes last, so that `n1` and `n01` have a fixed order too.
    """
    texts = DIGITS.split(name)
    parts: list[str | int] = list(texts)
    parts[1::2] = [int(digits[:_DIGITS_MAX]) for digits in texts[1::2]]
    return tuple(parts), name
