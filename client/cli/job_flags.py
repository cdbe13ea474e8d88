"""A job from flags, as people know them from sbatch: how many nodes, for how long, how split."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from client.errors import InputError
from client.shapes import Body

GPUS_OF_A_NODE = 8
"""Where nobody says how many GPUs of a node are wanted."""

NAME_MAX = 57
"""Of what a name begins with; five characters that make it unlike others come behind."""

_TIME = re.compile(r"(?:(\d{1,5})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)
_WITHIN = re.compile(r"(?:([\w.-]+)=)?([\w.-]+?)(!?)")
_AXES = ("tp", "cp", "ep", "pp", "dp")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the flags say; None and empty = not given.

    Attributes:
        nodes, gpus_per_node, gpus: Of the whole job; two of them give the third.
        axes: Sizes by axis, as in `{"tp": 8}`.
        within: `LEVEL`, `GROUP=LEVEL`; with a `!` behind it is required.
        time: As Slurm writes it: minutes, `HH:MM:SS`, `D-HH:MM`.
        constraint, env: `KEY=VALUE`.
    """

    name: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    gpu: str | None = None
    axes: dict[str, int] = field(default_factory=dict)
    within: Sequence[str] = ()
    time: str | None = None
    queue: str | None = None
    priority: int | None = None
    nodelist: str | None = None
    constraint: Sequence[str] = ()
    env: Sequence[str] = ()
    cpus: int | None = None
    mem_gib: float | None = None
    spares: int | None = None
    max_restarts: int | None = None
    exclusive: bool = False
    no_preempt: bool = False
    wait_if_never: bool = False
    command: Sequence[str] = ()


def body_of(asked: Asked) -> dict[str, object]:
    """The job that is asked for.

    Raises:
        InputError: If the flags contradict each other, or one cannot be read.
    """
    body: dict[str, object] = {"name": asked.name or _made_up(asked.command)}
    body |= _shape(asked)
    body |= {
        key: value
        for key, value in (
            ("gpu", asked.gpu),
            ("queue", asked.queue),
            ("priority", asked.priority),
            ("spares", asked.spares),
            ("exclusive", asked.exclusive or None),
            ("preemptible", False if asked.no_preempt else None),
            ("if_never_fits", "wait" if asked.wait_if_never else None),
        )
        if value is not None
    }
    if asked.time is not None:
        seconds = seconds_of(asked.time)
        body |= {"time_limit_s": seconds, "duration_s": seconds}
    if asked.nodelist:
        body["nodes"] = _names(asked.nodelist)
    if asked.within:
        body["topology"] = [_rule(text) for text in asked.within]
    if asked.constraint:
        body["labels"] = _pairs("--constraint", asked.constraint)
    if asked.max_restarts is not None:
        body["failure"] = {"max_restarts": asked.max_restarts}
    if asked.command or asked.env:
        body["run"] = {"command": list(asked.command), "env": _pairs("--env", asked.env)}
    return body


def _shape(asked: Asked) -> Body:
    """Sizes of the gang: by parallel sizes where any are given, else one pod on each node."""
    each = asked.gpus_per_node
    if asked.axes:
        return _parallel(asked)
    nodes, total = asked.nodes, asked.gpus
    if nodes is None:
        wanted = 1 if total is None else total
        each = each or min(wanted if total is not None else GPUS_OF_A_NODE, GPUS_OF_A_NODE)
        if wanted % each and total is not None:
            raise InputError(f"--gpus {total} is no multiple of {each} GPUs of a node")
        nodes = 1 if total is None else total // each
    elif total is not None:
        if total % nodes or (each is not None and nodes * each != total):
            said = f"--nodes {nodes}" + (f" --gpus-per-node {each}" if each else "")
            raise InputError(f"--gpus {total} does not go with {said}")
        each = total // nodes
    role: dict[str, object] = {
        "name": "worker",
        "replicas": nodes,
        "gpus": each or GPUS_OF_A_NODE,
        "one_per_node": True,
    }
    if asked.cpus is not None:
        role["cpu"] = asked.cpus
    if asked.mem_gib is not None:
        role["memory_gib"] = asked.mem_gib
    return {"roles": [role]}


def _parallel(asked: Asked) -> Body:
    """`parallelism`; what the other sizes leave of all GPUs is dp, unless that is given."""
    sizes = {axis: asked.axes[axis] for axis in _AXES if axis in asked.axes}
    inner = prod(size for axis, size in sizes.items() if axis in {"tp", "cp", "pp"})
    total = asked.gpus
    if total is None and asked.nodes is not None:
        total = asked.nodes * (asked.gpus_per_node or GPUS_OF_A_NODE)
    if total is not None:
        world = inner * sizes.get("dp", 1)
        if "dp" in sizes and world != total:
            said = " x ".join(f"{axis} {size}" for axis, size in sizes.items() if axis != "ep")
            raise InputError(f"{said} are {world} GPUs, and {total} are asked for")
        if total % inner:
            raise InputError(f"{total} GPUs cannot be shared out by tp x cp x pp = {inner}")
        sizes["dp"] = total // inner
    of_pods = {
        "gpus_per_pod": asked.gpus_per_node,
        "cpus_per_pod": asked.cpus,
        "memory_gib_per_pod": asked.mem_gib,
    }
    return {"parallelism": sizes} | {k: v for k, v in of_pods.items() if v is not None}


def seconds_of(text: str) -> int:
    """Seconds of a time as Slurm writes it: `30` are minutes, `2:30:00`, `1-12`, `1-12:30`.

    Raises:
        InputError: If it is none.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise InputError(
            f"'{text}' is no time; give minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"
        )
    days, first, second, third = (None if part is None else int(part) for part in found.groups())
    first = first or 0
    if days is not None:
        seconds = days * 86_400 + first * 3_600 + (second or 0) * 60 + (third or 0)
    elif third is not None:
        seconds = first * 3_600 + (second or 0) * 60 + third
    elif second is not None:
        seconds = first * 60 + second
    else:
        seconds = first * 60
    if not seconds:
        raise InputError(f"'{text}' is no time at all")
    return seconds


def _rule(text: str) -> Body:
    found = _WITHIN.fullmatch(text)
    if found is None:
        raise InputError(
            f"'{text}' is no rule; give LEVEL or GROUP=LEVEL, with ! behind if it is required"
        )
    mode = "required" if found[3] else "preferred"
    return {"group": found[1] or "job", "within": found[2], "mode": mode}


def _pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{flag} '{text}' is not KEY=VALUE")
        pairs[key] = value
    return pairs


def _names(text: str) -> list[str]:
    """Names and hostlists between commas; commas in brackets belong to a hostlist."""
    parts = re.split(r",(?![^\[]*\])", text)
    return [part.strip() for part in parts if part.strip()]


def _made_up(command: Sequence[str]) -> str:
    """A name of the program's, with something behind that no other job has."""
    base = command[0].rpartition("/")[2] if command else "job"
    base = re.sub(r"[^a-z0-9]+", "-", base.lower().partition(".")[0]).strip("-")[:NAME_MAX]
    return f"{base or 'job'}-{secrets.token_hex(3)[:5]}"
