"""Lengths of time as people write them: 90m, 4h, 2d."""

import re

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LENGTH = re.compile(r"([0-9]{1,9})([smhd])")


def length_s(text: str, option: str, *, zero: bool = False) -> float:
    """Seconds of a length of time.

    Args:
        zero: A plain 0 is one too.

    Raises:
        typer.BadParameter: If it is none; it names the option.
    """
    if zero and text in {"0", "0s"}:
        return 0.0
    found = _LENGTH.fullmatch(text)
    if found is None or int(found[1]) == 0:
        words = "write 0, 90s, 10m or 4h" if zero else "write 90m, 4h or 2d"
        raise typer.BadParameter(f"{option}: '{text}' is no length of time; {words}")
    return float(int(found[1]) * _UNITS[found[2]])
