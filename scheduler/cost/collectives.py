"""Seconds of collectives, from the slowest link inside and between pods.

A *pod* here is a set of ranks that talk over scale-up links; a ring runs through the ranks of one
pod before it goes on to the next, as NCCL's rings do.
"""

from dataclasses import dataclass
from math import ceil, log2


@dataclass(slots=True)
class Ways:
    """What a group's messages go through.

    Attributes:
        pods: Pods of the group; at least 1.
        local: Ranks of the group in each pod; at least 1.
        inside_s_per_byte: Of what one rank sends inside its pod or scale-up domain; 0 if it never
            does.
        between_s_per_byte: Of what one pod sends to the next, all ranks of the group together, at
            the slowest link, with what all groups send at once; 0 if nothing leaves.
        inside_hop_s, between_hop_s: Fixed time of one hop.
    """

    pods: int
    local: float
    inside_s_per_byte: float
    between_s_per_byte: float
    inside_hop_s: float
    between_hop_s: float

    @property
    def slowest_s_per_byte(self) -> float:
        return max(self.inside_s_per_byte, self.between_s_per_byte)

    @property
    def slowest_hop_s(self) -> float:
        return self.between_hop_s if self.between_s_per_byte else self.inside_hop_s


def ring_s(sent_bytes: float, steps: int, ways: Ways) -> float:
    """Every rank sends to the next, `steps` times; all hops at once, so the slowest counts.

    An all-reduce of S bytes over n ranks sends 2(n - 1)/n S bytes per rank in 2(n - 1) steps, its
    two halves (reduce-scatter, all-gather) half of that each.

    Source:
        Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
        workstations", J. Parallel Distrib. Comput. 69(2), 2009.
    """
    return sent_bytes * ways.slowest_s_per_byte + steps * ways.slowest_hop_s


def hierarchical_s(sent_bytes: float, turns: int, ways: Ways) -> float:
    """Reduce-scatter inside pods, the same between them, and all-gathers back.

    Of 2S bytes each rank sends (g - 1)/g inside its pod of g; the pods then pass on (k - 1)/k.

    Args:
        sent_bytes: What each rank would send in a ring: (n - 1)/n of 2S.
        turns: Passes one after the other: 2 for an all-reduce, times the number of calls.

    Source:
        Jia et al., "Highly scalable deep learning training system with mixed-precision",
        arXiv:1807.11205 (hierarchical all-reduce).
    """
    ranks = ways.pods * ways.local
    whole = sent_bytes * ranks / (ranks - 1)
    inside = whole * (ways.local - 1) / ways.local * ways.inside_s_per_byte
    between = whole * (ways.pods - 1) / ways.pods * ways.between_s_per_byte
    hops_s = (ways.local - 1) * ways.inside_hop_s + (ways.pods - 1) * ways.between_hop_s
    return inside + between + turns * hops_s


def tree_s(sent_bytes: float, turns: int, ways: Ways) -> float:
    """All-reduce up and down two binary trees of pods, a chain inside each.

    Both trees carry half of the bytes, each rank passes on all of them twice, and the way is
    log2 k hops between pods instead of k.

    Source:
        Sanders et al., "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
        Parallel Computing 35(12), 2009; NCCL, "Massively scale your deep learning training with
        NCCL 2.4", 2019.
    """
    ranks = ways.pods * ways.local
    whole = sent_bytes * ranks / (ranks - 1)
    levels = ceil(log2(ways.pods)) if ways.pods > 1 else 0
    hops_s = (ways.local - 1) * ways.inside_hop_s + levels * ways.between_hop_s
    return whole * ways.slowest_s_per_byte + turns * hops_s


def halves_s(sent_bytes: float, turns: int, ways: Ways) -> float:
    """Reduce-scatter and all-gather, by ring or in two stages, whichever is faster."""
    ranks = round(ways.pods * ways.local)
    ring = ring_s(sent_bytes, turns * (ranks - 1), ways)
    return min(ring, hierarchical_s(sent_bytes, turns, ways))


def all_reduce_s(sent_bytes: float, turns: int, ways: Ways) -> float:
    """By ring, tree or in two stages, whichever is fastest, as NCCL chooses."""
    return min(halves_s(sent_bytes, turns, ways), tree_s(sent_bytes, turns, ways))


def send_recv_s(sent_bytes: float, turns: int, ways: Ways) -> float:
    """Messages to one neighbour, `turns` of them one after the other."""
    return sent_bytes * ways.slowest_s_per_byte + turns * ways.slowest_hop_s


def all_to_all_s(sent_bytes: float, calls: int, peer_s: float, ways: Ways) -> float:
    """A message from each rank to every other, all at once.

    Args:
        sent_bytes: Sent by each rank to all others, in all calls together.
        peer_s: Fixed time of each peer after the first.
    """
    ranks = round(ways.pods * ways.local)
    fixed_s = ways.slowest_hop_s + (ranks - 2) * peer_s if ranks > 1 else 0.0
    return sent_bytes * ways.slowest_s_per_byte + calls * fixed_s
