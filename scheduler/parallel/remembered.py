"""Tables of layouts that are kept: very many of small ones, of large ones as many as have room.

A layout of a million ranks has tables of many megabytes, and anybody may ask about such gangs,
each with sizes of its own. So what is kept is bounded by its bytes and not by its number.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, wraps
from typing import TypeVar, cast

import numpy as np

from scheduler.model.job import ParallelSizes

SMALL_WORLD = 512
"""Ranks up to which a table takes some kilobytes, so that it does not matter what it takes."""

LARGE_BYTES = 256 * 1024 * 1024
"""Of all tables of larger layouts together: about those of two gangs of a million ranks, or of
fifty of ten thousand."""

NUMBER_BYTES = 40
"""Of an int in a list, with its place there."""

T = TypeVar("T")
Make = TypeVar("Make", bound=Callable[..., object])


class Tables:
    """Results of functions, by function and arguments; the one used longest ago goes first.

    Threads share it without a lock: what one of them takes out while another looks for it is made
    twice, and is the same.

    Attributes:
        bytes_max: Of all results; the one made last stays whatever it takes.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._kept: dict[Hashable, tuple[object, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """What they take, about."""
        return sum(size for _, size in tuple(self._kept.values()))

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under a key, or is made now."""
        found = self._kept.pop(key, None)
        if found is None:
            value = make()
            found = value, bytes_of(value)
            self._bytes += found[1]
        self._kept[key] = found
        if self._bytes > self.bytes_max:
            self._drop_oldest()
        return cast("T", found[0])

    def _drop_oldest(self) -> None:
        # Summed up anew: two threads that add to one number may lose a part of it.
        self._bytes = self.size_bytes
        for key in tuple(self._kept)[:-1]:
            if self._bytes <= self.bytes_max:
                return
            _, size = self._kept.pop(key, (None, 0))
            self._bytes -= size


LARGE = Tables(LARGE_BYTES)
"""Those of this process."""


def remembered(maxsize: int) -> Callable[[Make], Make]:
    """Keep the results of a function whose first argument is a layout, `ParallelSizes`.

    Args:
        maxsize: Results for layouts of up to `SMALL_WORLD` ranks.
    """

    def around(make: Make) -> Make:
        small = lru_cache(maxsize=maxsize)(make)

        @wraps(make)
        def found(sizes: ParallelSizes, *args: Hashable, **named: Hashable) -> object:
            if sizes.world <= SMALL_WORLD:
                return small(sizes, *args, **named)
            key = (make, sizes, args, tuple(sorted(named.items())))
            return LARGE.get(key, lambda: make(sizes, *args, **named))

        return cast("Make", found)

    return around


def bytes_of(value: object) -> int:
    """About how much memory a table takes: arrays, lists of numbers, and what is made of them."""
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else bytes_of(value.base)
    if isinstance(value, Mapping):
        return sum(map(bytes_of, value.values()))
    if isinstance(value, list):
        return NUMBER_BYTES * len(value)
    if isinstance(value, tuple):
        return sum(map(bytes_of, value))
    if is_dataclass(value):
        return sum(bytes_of(getattr(value, field.name)) for field in fields(value))
    return NUMBER_BYTES
