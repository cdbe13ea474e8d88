"""Which format a text is in, where that is plain."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.importers import (
    csv_hosts,
    ibnetdiscover,
    k8s_nodes,
    nccl_xml,
    nvidia_smi,
    podyard_yaml,
    slurm_conf,
    slurm_yaml,
    topograph,
)
from scheduler.importers.options import DEFAULTS, Options
from scheduler.importers.refusals import refuse
from scheduler.model.node import Inventory


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be imported.

    Attributes:
        name: As in `?format=`.
        what: What it is, for a person who has to choose.
        signs: Patterns of which one is found in a line near the start of such a text. None of them
            reads on into the next line, which would make them slow on texts made to be so.
        parse: Text and options -> inventory.
    """

    name: str
    what: str
    signs: tuple[re.Pattern[str], ...]
    parse: Callable[[str | bytes, Options], Inventory]


def _podyard(text: str | bytes, options: Options) -> Inventory:
    return podyard_yaml.parse(text)


def _slurm(text: str | bytes, options: Options) -> Inventory:
    """Either of Slurm's files: the newer one is YAML."""
    head = _head(text)
    if any(sign.search(head) for sign in _SLURM_YAML):
        return slurm_yaml.parse(text, options)
    return slurm_conf.parse(text, options)


def _signs(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE | re.IGNORECASE) for pattern in patterns)


_SLURM_YAML = _signs(r'^[ \t]{0,40}(?:-[ \t]{1,8})?["{ ]{0,4}topology"?:[ \t]')

FORMATS: Mapping[str, Format] = {
    found.name: found
    for found in (
        Format(
            "podyard",
            "Podyard's own inventory (YAML or JSON)",
            _signs(
                r"^(?:levels|node_types|scale_up):",
                r'^[ \t]{0,8}[{]?[ \t]{0,8}"(?:levels|node_types|scale_up)":',
                # Kubernetes lists an image's names below the word, or in brackets.
                r'^[ \t]{0,40}(?:-[ \t]{1,8})?[{ "]{0,4}names"?:[ \t]{1,8}[^\s\[]',
            ),
            _podyard,
        ),
        Format(
            "slurm",
            "Slurm's topology.conf, topology.yaml, or NodeName lines of slurm.conf",
            (
                *_signs(
                    r"^[ \t]{0,40}(?:SwitchName|BlockName|BlockSizes|RingName|NodeName)[ \t]{0,40}="
                ),
                *_SLURM_YAML,
            ),
            _slurm,
        ),
        Format(
            "topograph",
            "a model of NVIDIA topograph, or NetQ's answer",
            _signs(
                r"^blocks:",
                r'^[ \t]{0,40}[{]?[ \t]{0,40}"blocks":',
                r'"DomainUUID":',
                r'"compounded_(?:links|nodes)":',
            ),
            topograph.parse,
        ),
        Format(
            "kubernetes",
            "Kubernetes nodes (`kubectl get nodes -o json` or yaml)",
            _signs(
                r"^[ \t]{0,40}(?:-[ \t]{1,8})?kind:[ \t]{1,8}"
                r"[\"']?(?:Node|NodeList|List|Cluster|NodeFeature)\b",
                r'"kind":[ \t]{0,8}"(?:Node|NodeList|List)"',
                r"^tasks:",
            ),
            k8s_nodes.parse,
        ),
        Format(
            "ibnetdiscover",
            "a dump of `ibnetdiscover`, with or without --ports",
            _signs(
                r"^vendid=0x",
                r'^(?:Switch|Ca)[ \t]+\d+[ \t]+"[SH]-',
                r"^(?:CA|SW)[ \t]+\d+[ \t]+\d+[ \t]+0x[0-9a-f]+[ \t]+\d+x[ \t]",
            ),
            ibnetdiscover.parse,
        ),
        Format(
            "nccl",
            "NCCL's topology file (XML), for a node type",
            _signs(r"^[ \t]{0,40}<(?:system|graphs)\b"),
            nccl_xml.parse,
        ),
        Format(
            "nvidia-smi",
            "the table of `nvidia-smi topo -m`, for a node type",
            _signs(
                r"^[ \t]{0,40}(?:\x1b\[\d+m)?[ \t]{0,40}GPU0[ \t]+(?:\S+[ \t]+)*?(?:GPU1|CPU)\b",
                r"^GPU0[ \t]+X\b",
            ),
            nvidia_smi.parse,
        ),
        Format(
            "csv",
            "a table of hosts (CSV), or lines `host: domain`",
            _signs(
                r'\A\s{0,8}(?:"?\w+"?[,;\t|])*'
                r'"?(?:host|hostname|node|node_name|machine|sn|ip)"?(?:[,;\t|]|$)'
            ),
            csv_hosts.parse,
        ),
    )
}
"""By name, in the order in which they are listed for a person."""

HEAD_CHARACTERS = 65_536
"""How much of a text is looked at."""


def _head(text: str | bytes) -> str:
    head = text[:HEAD_CHARACTERS]
    plain = head.decode("utf-8", "replace") if isinstance(head, bytes) else head
    return plain.removeprefix("\ufeff")


def possible_formats(text: str | bytes) -> list[str]:
    """Names of the formats that a text shows signs of, in the order of `FORMATS`."""
    head = _head(text)
    return [name for name, f in FORMATS.items() if any(sign.search(head) for sign in f.signs)]


def detect(text: str | bytes) -> Format:
    """The one format that a text shows signs of.

    Raises:
        InventoryError: If it shows signs of none or of several.
    """
    found = possible_formats(text)
    if len(found) == 1:
        return FORMATS[found[0]]
    known = "; ".join(f"{name}: {FORMATS[name].what}" for name in found or FORMATS)
    why = "could be in several formats" if found else "is in no format that can be recognised"
    raise refuse("format", f"the text {why}; name one of them: {known}")


def parse(text: str | bytes, options: Options = DEFAULTS, *, format_name: str = "") -> Inventory:
    """The inventory of a text in a named format, or in the one that it shows signs of.

    Raises:
        InventoryError: If the format is unknown or not plain, or the text is wrong.
    """
    if format_name and format_name not in FORMATS:
        raise refuse("format", f"'{format_name[:60]}' is none of {', '.join(FORMATS)}")
    chosen = FORMATS[format_name] if format_name else detect(text)
    return chosen.parse(text, options)
