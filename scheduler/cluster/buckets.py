"""Domains by their count: the tightest that holds n is found without a scan."""

from bisect import bisect_left, insort
from collections.abc import Iterator

CHUNK_BITS = 10
"""Domains of one chunk of a bitmask, as a power of two: finding the first is then a look at two
small numbers, whatever the cluster's size."""


class Buckets:
    """Domains by their count, as bitmasks in chunks: the tightest that holds n needs no scan.

    Attributes:
        counts: Counts that occur, ascending.
        masks: Count -> chunk -> the domains of that chunk with that count; no empty chunks.
    """

    __slots__ = ("_chunks", "_sizes", "counts", "masks")

    def __init__(self, counts: list[int]) -> None:
        self.masks: dict[int, dict[int, int]] = {}
        self.counts: list[int] = []
        self._chunks: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        for chunk, first in enumerate(range(0, len(counts), 1 << CHUNK_BITS)):
            self._put_all(chunk, counts[first : first + (1 << CHUNK_BITS)])

    def _put_all(self, chunk: int, counts: list[int]) -> None:
        """Take in the counts of all domains of a chunk."""
        masks: dict[int, int] = {}
        bit = 1
        for count in counts:
            masks[count] = masks.get(count, 0) | bit
            bit <<= 1
        for count, mask in masks.items():
            self._know(count)
            self.masks[count][chunk] = mask
            self._chunks[count] |= 1 << chunk
            self._sizes[count] += mask.bit_count()

    def _know(self, count: int) -> None:
        if count not in self.masks:
            self.masks[count] = {}
            self._chunks[count] = self._sizes[count] = 0
            insort(self.counts, count)

    def _put(self, index: int, count: int) -> None:
        self._know(count)
        chunk = index >> CHUNK_BITS
        masks = self.masks[count]
        masks[chunk] = masks.get(chunk, 0) | 1 << (index & _IN_CHUNK)
        self._chunks[count] |= 1 << chunk
        self._sizes[count] += 1

    def move(self, index: int, old: int, new: int) -> None:
        """Take account of a domain whose count changed."""
        chunk = index >> CHUNK_BITS
        masks = self.masks[old]
        masks[chunk] ^= 1 << (index & _IN_CHUNK)
        self._sizes[old] -= 1
        if not masks[chunk]:
            del masks[chunk]
            self._chunks[old] ^= 1 << chunk
            if not masks:
                del self.masks[old], self._chunks[old], self._sizes[old]
                del self.counts[bisect_left(self.counts, old)]
        self._put(index, new)

    def size(self, count: int) -> int:
        """How many domains have exactly this count, one that occurs."""
        return self._sizes[count]

    def hold(self, groups: int, each: int) -> bool:
        """Whether so many groups that take so much each find a domain each, several in one too."""
        for count in reversed(self.counts):
            if count < each:
                return False
            groups -= count // each * self._sizes[count]
            if groups <= 0:
                return True
        return False

    def members(self, count: int) -> Iterator[int]:
        """Indices of the domains with exactly this count, one that occurs; ascending."""
        masks = self.masks[count]
        for chunk in bits(self._chunks[count]):
            base = chunk << CHUNK_BITS
            for index in bits(masks[chunk]):
                yield base + index

    def at_least(self, wanted: int) -> Iterator[int]:
        """Indices with a count of at least `wanted`: smallest count first, then by index."""
        for count in self.counts[bisect_left(self.counts, wanted) :]:
            yield from self.members(count)

    @property
    def largest(self) -> int:
        return self.counts[-1] if self.counts else 0


_IN_CHUNK = (1 << CHUNK_BITS) - 1


def bits(mask: int) -> Iterator[int]:
    """Set bits of a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
