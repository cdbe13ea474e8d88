"""What a pod asks of its node beside GPUs, and the arithmetic of GPU masks."""

from dataclasses import dataclass

MAX_GPUS_PER_NODE = 62
"""A node's GPUs are the bits of one signed 64-bit column; one bit is kept free for the sign, one
spare."""


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of everything on a node that is counted rather than named.

    Attributes:
        cpu_milli: Thousandths of a CPU; at least 0.
        memory_mib: Mebibytes; at least 0.
        other: Further countable resources, (name, amount) sorted by name, amounts above 0.
    """

    cpu_milli: int = 0
    memory_mib: int = 0
    other: tuple[tuple[str, int], ...] = ()

    def is_zero(self) -> bool:
        return not (self.cpu_milli or self.memory_mib or self.other)


NOTHING = Resources()


def mask_of(gpu_indices: list[int] | tuple[int, ...]) -> int:
    """The mask with a bit for every index; bit i is GPU i."""
    mask = 0
    for index in gpu_indices:
        mask |= 1 << index
    return mask


def indices_of(mask: int) -> list[int]:
    """The GPU indices of a mask, ascending."""
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out


def full_mask(gpu_count: int) -> int:
    """All GPUs of a node of `gpu_count`."""
    return (1 << gpu_count) - 1
