"""Writes the dump that `ibnetdiscover` would print of a regular cluster."""

from collections import defaultdict
from dataclasses import dataclass, field

HCA, SWITCH = "H", "S"


@dataclass
class Port:
    guid: int
    number: int


@dataclass
class Dump:
    """A fabric as a dump sees it: devices with names, and cables between ports."""

    names: dict[int, str] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    cables: list[tuple[Port, Port, str]] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def device(self, kind: str, name: str) -> int:
        guid = 0xAA0000000000_0000 + len(self.names) + 1
        self.names[guid], self.kinds[guid] = name, kind
        return guid

    def cable(self, a: int, b: int, speed: str = "4xNDR") -> None:
        ends = []
        for guid in (a, b):
            self.used[guid] += 1
            ends.append(Port(guid, self.used[guid]))
        self.cables.append((ends[0], ends[1], speed))

    def text(self) -> str:
        links: dict[int, list[tuple[int, Port, str]]] = defaultdict(list)
        for a, b, speed in self.cables:
            links[a.guid].append((a.number, b, speed))
            links[b.guid].append((b.number, a, speed))
        lines = ["# Topology file: generated on Mon Dec  1 12:00:00 2025", ""]
        for guid in sorted(self.names, key=lambda guid: (self.kinds[guid] == HCA, guid)):
            lines += self._record(guid, links[guid])
        return "\n".join(lines) + "\n"

    def _record(self, guid: int, links: list[tuple[int, Port, str]]) -> list[str]:
        name, switch = self.names[guid], self.kinds[guid] == SWITCH
        if switch:
            described = f'"MF0;{name}:MQM9701/U1" enhanced port 0 lid 7 lmc 0'
            head = f'Switch\t65 "S-{guid:016x}"\t\t# {described}'
        else:
            head = f'Ca\t1 "H-{guid:016x}"\t\t# "{name}"'
        lines = ["vendid=0x2c9", f"{'switch' if switch else 'ca'}guid=0x{guid:x}", head]
        for number, peer, speed in sorted(links, key=lambda link: link[0]):
            own = "" if switch else f"({guid:x})"
            kind, peer_name = self.kinds[peer.guid], self.names[peer.guid]
            shown = f"MF0;{peer_name}:MQM9701/U1" if kind == SWITCH else peer_name
            end = f'"{kind}-{peer.guid:016x}"[{peer.number}]'
            lines.append(f'[{number}]{own}\t{end}\t\t# "{shown}" lid 9 {speed}')
        return [*lines, ""]


def regular_dump(
    *,
    blocks: int = 2,
    leaf_groups: int = 2,
    nodes: int = 4,
    rails: int = 4,
    uplinks: int = 4,
    cores: int = 2,
) -> Dump:
    """A rail-optimised fabric: a leaf switch per rail in each group, each cabled to every spine.

    Args:
        leaf_groups: Of each block; `nodes` of each group.
        uplinks: Cables from each leaf to each of the block's two spines.
        cores: Core switches above all spines; a spine has as many cables up as down.
    """
    dump = Dump()
    top = [dump.device(SWITCH, f"core-{c}") for c in range(cores)]
    for b in range(blocks):
        spines = [dump.device(SWITCH, f"spine-{b}-{s}") for s in range(2)]
        for spine in spines:
            for i in range(leaf_groups * rails * uplinks):
                dump.cable(spine, top[i % cores]) if top else None
        for g in range(leaf_groups):
            leaves = [dump.device(SWITCH, f"leaf-{r}-{b}{g}") for r in range(rails)]
            for leaf in leaves:
                for spine in spines:
                    for _ in range(uplinks):
                        dump.cable(leaf, spine)
            for n in range(nodes):
                for rail, leaf in enumerate(leaves):
                    dump.cable(dump.device(HCA, f"n{b}{g}{n:02d} mlx5_{rail}"), leaf)
    return dump
