"""Every importer survives every text: it makes an inventory or refuses, and takes no time over it.

Texts are made of good ones by what happens to files: cut off, spliced, lines lost, doubled or
swapped, bytes flipped, numbers blown up. The slow run makes a hundred times as many.
"""

import random
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from scheduler.errors import InventoryError
from scheduler.importers import (
    csv_hosts,
    detect,
    ibnetdiscover,
    k8s_nodes,
    nccl_xml,
    nvidia_smi,
    podyard_yaml,
    sharp_map,
    slurm_conf,
    slurm_yaml,
    topograph,
)
from scheduler.importers.guid_hosts import read_hosts
from scheduler.model.node import Inventory
from scheduler.topology.build import build
from tests.core.importers.ib_writer import regular_dump
from tests.core.importers.samples import SAMPLES
from tests.core.importers.test_golden import GOLDEN, odd_dump

SECONDS_MAX = 5.0
"""What one text may take at most, of the processor: other tests may run beside this one."""

INPUTS, INPUTS_SLOW = 1_000, 100_000

SEED_BYTES_MAX = 6_000
"""Longer texts show nothing that shorter ones do not, and cost time."""

ROUND_TRIP_EVERY = 25

PIECES = (
    *(b"", b"\n", b"\t", b" ", b"\x00", b"\xff\xfe", b"\xc3\x28", "\u202e".encode(), "é".encode()),
    *(
        b"0",
        b"-1",
        b"999999999999999999999",
        b"1e999",
        b"nan",
        b"0x",
        b"[",
        b"]",
        b"[0-",
        b"[1-9999999]",
    ),
    *(
        b"{",
        b"}",
        b'"',
        b"'",
        b":",
        b": ",
        b"- ",
        b"=",
        b",",
        b"#",
        b"\\",
        b"&a",
        b"*a",
        b"!!python/x",
    ),
    *(
        b"<",
        b"</",
        b"<!DOCTYPE a>",
        b"&lt;",
        b"null",
        b"true",
        b"~",
        b"---\n",
        b"a" * 300,
        b"../..",
    ),
    *(b"n[1-2]", b"NodeName=", b"SwitchName=", b"Switches=", b"GPU0", b"4xNDR", b"\xef\xbb\xbf"),
)

Parse = Callable[[bytes], Inventory]


def sharp(text: bytes) -> Inventory:
    return sharp_map.parse(text, hosts={1: "n1", 2: "n2", 10: "n3"})


def guids(text: bytes) -> Inventory:
    """A table of adapters is no inventory; it is used as one so that all are tried alike."""
    hosts = read_hosts(text)
    return ibnetdiscover.parse(regular_dump(blocks=1, nodes=1).text(), hosts=hosts)


PARSERS: Mapping[str, Parse] = {
    "slurm_conf": slurm_conf.parse,
    "slurm_yaml": slurm_yaml.parse,
    "topograph": topograph.parse,
    "k8s_nodes": k8s_nodes.parse,
    "csv_hosts": csv_hosts.parse,
    "ibnetdiscover": ibnetdiscover.parse,
    "sharp_map": sharp,
    "guid_hosts": guids,
    "nccl_xml": nccl_xml.parse,
    "nvidia_smi": nvidia_smi.parse,
    "podyard_yaml": podyard_yaml.parse,
    "detect": detect.parse,
}

OWN: Mapping[str, Sequence[str]] = {
    "slurm_conf": ["slurm-tree.conf"],
    "slurm_yaml": ["slurm-block.yaml"],
    "topograph": ["topograph-model.yaml"],
    "k8s_nodes": ["kubernetes-nodes.yaml"],
    "csv_hosts": ["hosts.csv"],
    "nccl_xml": ["nccl-node.xml"],
    "nvidia_smi": ["nvidia-smi-node.txt"],
}

PUBLISHED: Mapping[str, Sequence[str]] = {
    "slurm_conf": ["slurm/*.conf", "slurm/block/*", "topograph/*.conf"],
    "slurm_yaml": ["slurm/*.yaml", "slurm/bad-yaml/*"],
    "topograph": ["topograph/*.yaml", "topograph/*.json"],
    "k8s_nodes": ["k8s-nodes/*"],
    "csv_hosts": ["cyclecloud-slurm/nodes_*"],
    "ibnetdiscover": ["infiniband_exporter/*", "superbenchmark/ib*", "topograph/*bad.out"],
    "sharp_map": ["cyclecloud-slurm/topology.txt"],
    "guid_hosts": ["cyclecloud-slurm/nodes_guids.txt", "superbenchmark/ibstat.txt"],
    "nccl_xml": ["nccl-topology/*"],
    "nvidia_smi": ["nvidia-smi/*"],
}

INLINE: Mapping[str, Sequence[bytes]] = {
    "ibnetdiscover": [
        odd_dump().encode(),
        regular_dump(blocks=1, nodes=1, rails=2).text().encode(),
    ],
    "sharp_map": [b"SwitchName=a Nodes=0x1,0x2\nSwitchName=b Switches=a\nSwitchName=c Nodes=0xa\n"],
    "guid_hosts": [b"n1: 0x1\nn2: 2\n", b"VM_hostname a\n01\n"],
    "csv_hosts": [
        b"host,dc,block,rack,gpu,model\nn1,d,b,r,8,H100\nn2,d,c,r,0,\n",
        b"n1: a\nn2: b\n",
    ],
    "k8s_nodes": [
        b'{"kind":"List","items":[{"kind":"Node","metadata":{"name":"a","labels":'
        b'{"volcano.sh/tor":"t"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},'
        b'"status":{"capacity":{"cpu":"4"}}}]}'
    ],
    "podyard_yaml": [
        b"cluster: a\nlevels: [rack, node]\nnode_types: {t: {gpu: H100, gpus: 8}}\nnodes:\n"
        b"- {names: 'n[1-4]', type: t, rack: r1, labels: {a: b}, taints: [{key: k}]}\n"
        b"sets: {cdu: {c1: 'n[1-2]'}}\nfabric: {levels: {rack: {gbps_per_gpu: 400}}}\n"
    ],
}


def seeds(name: str) -> list[bytes]:
    """Good texts for an importer; published ones only where they are there."""
    if name == "detect":
        return [text for other in PARSERS if other != "detect" for text in seeds(other)[:3]]
    published = [
        path.read_bytes()
        for pattern in PUBLISHED.get(name, ())
        for path in sorted(SAMPLES.glob(pattern))
        if is_short(path)
    ]
    own = [*INLINE.get(name, ()), *((GOLDEN / own).read_bytes() for own in OWN.get(name, ()))]
    # Half of all, for many of the published ones are there to be refused.
    return own * max(1, len(published) // len(own)) + published


def is_short(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= SEED_BYTES_MAX


def mutated(draw: random.Random, texts: Sequence[bytes]) -> bytes:
    text = draw.choice(texts)
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        text = draw.choice(MUTATIONS)(draw, text, texts)
    return text[: 4 * SEED_BYTES_MAX]


Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def _at(draw: random.Random, text: bytes) -> int:
    return draw.randrange(len(text) + 1)


def cut_off(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    return text[: _at(draw, text)]


def lose_part(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    low = _at(draw, text)
    return text[:low] + text[low + draw.randrange(1, 40) :]


def put_piece(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    low = _at(draw, text)
    over = draw.choice((0, 0, 1, 3))
    return text[:low] + draw.choice(PIECES) * draw.choice((1, 1, 1, 2, 50)) + text[low + over :]


def flip_byte(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    if not text:
        return text
    low = draw.randrange(len(text))
    return text[:low] + bytes([draw.randrange(256)]) + text[low + 1 :]


def change_lines(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    lines = text.split(b"\n")
    a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(4)
    if kind == 0:
        del lines[a]
    elif kind == 1:
        lines.insert(b, lines[a])
    elif kind == 2:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines[a:a] = lines[a : a + 5] * draw.randrange(1, 20)
    return b"\n".join(lines)


def splice(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    other = draw.choice(texts)
    return text[: _at(draw, text)] + other[_at(draw, other) :]


def swap_words(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    words = text.split(b" ")
    a, b = draw.randrange(len(words)), draw.randrange(len(words))
    words[a], words[b] = words[b], words[a]
    return b" ".join(words)


def change_number(draw: random.Random, text: bytes, texts: Sequence[bytes]) -> bytes:
    places = [i for i, byte in enumerate(text) if 48 <= byte <= 57]
    if not places:
        return text
    low = draw.choice(places)
    return (
        text[:low] + str(draw.choice((0, 1, 7, 64, 10**6, 10**18, -5))).encode() + text[low + 1 :]
    )


MUTATIONS: tuple[Mutation, ...] = (
    cut_off,
    lose_part,
    put_piece,
    put_piece,
    flip_byte,
    change_lines,
    splice,
    swap_words,
    change_number,
)


def torment(name: str, count: int, seed: int) -> tuple[int, int]:
    """Try so many texts; how many were read, and how many refused."""
    parse, texts, draw = PARSERS[name], seeds(name), random.Random(seed)
    read = refused = 0
    for number in range(count):
        text = mutated(draw, texts)
        started = time.process_time()
        outcome = tried(parse, text, round_trip=number % ROUND_TRIP_EVERY == 0)
        said = f"{name}, seed {seed}, input {number}: {text!r}"
        assert outcome in ("read", "refused"), f"{said}\n{outcome}"
        read += outcome == "read"
        refused += outcome == "refused"
        taken = time.process_time() - started
        assert taken < SECONDS_MAX, f"{said}\ntook {taken:.1f} s"
    return read, refused


def tried(parse: Parse, text: bytes, *, round_trip: bool) -> str:
    """`read`, `refused`, or what else happened."""
    try:
        inventory = parse(text)
        build(inventory)
        if round_trip:
            check_round_trip(inventory)
    except InventoryError as error:
        return "refused" if all(problem.message for problem in error.problems) else "no message"
    except Exception:
        return traceback.format_exc()
    return "read"


def check_round_trip(inventory: Inventory) -> None:
    """What was read can be written down and read again."""
    again = podyard_yaml.parse(podyard_yaml.render(inventory))
    assert [(n.name, n.type, dict(n.places)) for n in again.nodes] == [
        (n.name, n.type, dict(n.places)) for n in inventory.nodes
    ]
    assert (again.levels, again.scale_up) == (inventory.levels, inventory.scale_up)


@pytest.mark.parametrize("name", PARSERS)
def test_importer_reads_or_refuses_every_text(name: str) -> None:
    read, refused = torment(name, INPUTS, seed=11)
    assert read + refused == INPUTS
    assert refused > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", PARSERS)
def test_importer_reads_or_refuses_a_hundred_thousand_texts(name: str) -> None:
    read, refused = torment(name, INPUTS_SLOW, seed=12)
    assert read + refused == INPUTS_SLOW
