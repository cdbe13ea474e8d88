"""Amounts and times as Kubernetes writes them: `500m`, `2Gi`, `1e3`, `1h30m`."""

import re
from fractions import Fraction

TEXT_MAX = 64
"""Longer texts are no amounts that anybody wrote."""

EXPONENT_MAX = 30
"""Of ten; Kubernetes itself caps amounts below 10 to the 19th."""

_AMOUNT = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?\Z"
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{unit: Fraction(1_000 ** (n + 1)) for n, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1_024 ** (n + 1)) for n, unit in enumerate("KMGTPE")},
}

_TERM = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS_S = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0
}  # fmt: skip
DURATION_S_MAX = 2**63 / 1e9
"""Go keeps durations as nanoseconds in 64 bits."""


def parse_quantity(value: object) -> Fraction:
    """The number that a quantity stands for.

    Raises:
        ValueError: If it is no quantity; the message says what was found and what is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is no quantity; write a number as in 2, 500m or 16Gi")
    text = value if isinstance(value, str) else repr(value)
    found = _AMOUNT.match(text) if len(text) <= TEXT_MAX else None
    if found is None:
        raise ValueError(f"found '{text[:40]}'; write a quantity as in 2, 500m or 16Gi")
    sign, digits, suffix, exponent = found.groups()
    number = Fraction(digits.rstrip(".") if digits.endswith(".") else digits)
    if suffix:
        number *= _SUFFIXES[suffix]
    if exponent:
        power = int(exponent)
        if abs(power) > EXPONENT_MAX:
            raise ValueError(f"found '{text}'; exponents lie in -{EXPONENT_MAX} to {EXPONENT_MAX}")
        number *= Fraction(10) ** power
    return -number if sign == "-" else number


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as `10m` or `1h2m3.5s`.

    Raises:
        ValueError: If it is none.
    """
    rest = text[1:] if text[:1] in {"+", "-"} else text
    total, position = 0.0, 0
    while position < len(rest):
        term = _TERM.match(rest, position) if len(rest) <= TEXT_MAX else None
        if term is None:
            break
        total += float(term[1]) * _UNITS_S[term[2]]
        position = term.end()
    if rest != "0" and (not rest or position < len(rest)):
        raise ValueError(f"found '{text[:40]}'; write a duration as in 90s, 10m or 1h30m")
    if total > DURATION_S_MAX:
        raise ValueError(f"found '{text}'; a duration is below 292 years")
    return -total if text.startswith("-") else total


def decimal(amount: Fraction) -> str:
    """An amount as Kubernetes prints it: whole, or in thousandths, rounded up."""
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{-(-amount.numerator * 1_000 // amount.denominator)}m"
