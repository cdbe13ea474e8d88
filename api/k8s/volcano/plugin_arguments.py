"""Arguments of a job's plugins, written as flags: `--master=mpimaster`."""

from collections.abc import Sequence


def argument(arguments: Sequence[str], name: str, default: str) -> str:
    """The last value given for a flag, with one dash or two, joined by `=` or as the next word."""
    found = default
    for index, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag not in (f"-{name}", f"--{name}"):
            continue
        if equals:
            found = value
        elif index + 1 < len(arguments):
            found = arguments[index + 1]
    return found


def flag_argument(arguments: Sequence[str], name: str, *, default: bool) -> bool:
    """A flag that is on or off."""
    if any(word in (f"-{name}", f"--{name}") for word in arguments):
        return True
    value = argument(arguments, name, "true" if default else "false")
    return value.lower() in ("1", "t", "true")


def number_argument(arguments: Sequence[str], name: str, default: int) -> int:
    """A flag that is a port and the like; what is no number counts as not given."""
    value = argument(arguments, name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else default
