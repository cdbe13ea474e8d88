"""What node this is: read from the machine or from a file, and made known to the service."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from client.errors import ApiError, InputError
from client.http import Client

FORBIDDEN, NOT_FOUND = 403, 404

NODE = "node"
"""The innermost level; it has no places."""

SMI = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
SMI_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as it is to be registered.

    Attributes:
        gpus: None = ask `nvidia-smi`.
        gpu: Their model.
        file: An inventory to send instead of what is said here.
        places: Domain by level; null where none is given.
    """

    name: str
    gpus: int | None = None
    gpu: str = "GPU"
    file: Path | None = None
    places: Mapping[str, str] = field(default_factory=dict)


def register(client: Client, machine: Machine) -> None:
    """Make a node known, unless it is; a file is sent each time, as it may have changed.

    Raises:
        InputError: If the file cannot be read, or nothing says how many GPUs there are.
        ApiError, Unreachable: As the service answers.
    """
    if machine.file is not None:
        try:
            content = machine.file.read_bytes()
        except OSError as error:
            raise InputError(f"--file {machine.file}: {error.strerror}") from None
        _import(client, machine, content)
        return
    try:
        client.node(machine.name)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        made = inventory(machine, _levels(client, machine))
        _import(client, machine, json.dumps(made).encode(), "podyard")


def _import(client: Client, machine: Machine, content: bytes, format: str | None = None) -> None:
    """Send an inventory; a node that is known may do without the right to."""
    try:
        client.import_inventory(content, format=format)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        try:
            client.node(machine.name)
        except ApiError:
            raise InputError(
                f"the service does not know node '{machine.name}', and this agent may not tell it "
                "of new ones; let an admin import it: yardctl apply -f INVENTORY"
            ) from None
        sys.stderr.write(f"podyard-agent: node '{machine.name}' stays as it is known: {error}\n")


def _levels(client: Client, machine: Machine) -> list[str]:
    """The levels that the service has; those that the machine names if it may not be asked."""
    try:
        return list(client.topology()["levels"])
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return [*machine.places, NODE]


def inventory(machine: Machine, levels: list[str]) -> dict[str, object]:
    """Podyard's own format, with this node alone.

    Args:
        levels: Those that the service has; empty for an empty service.
    """
    models = [machine.gpu] * machine.gpus if machine.gpus is not None else read_gpus()
    if len(set(models)) > 1:
        raise InputError(
            f"this machine has several models of GPU: {', '.join(sorted(set(models)))}"
        )
    model, count = (models[0] if models else machine.gpu), len(models)
    levels = levels or [*machine.places, NODE]
    if unknown := sorted(machine.places.keys() - set(levels)):
        raise InputError(f"--place {unknown[0]}: the cluster has the levels {', '.join(levels)}")
    places = {level: machine.places.get(level) for level in levels if level != NODE}
    kind = f"agent-{count}x-{model}".replace(" ", "-")
    entry = {"names": machine.name, "type": kind} | places
    types = {kind: {"gpu": model, "gpus": count}}
    return {"levels": levels, "scale_up": NODE, "node_types": types, "nodes": [entry]}


def read_gpus() -> list[str]:
    """The model of each GPU of this machine.

    Raises:
        InputError: If `nvidia-smi` is not there or fails.
    """
    try:
        done = subprocess.run(
            SMI, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(
            f"nvidia-smi tells no GPUs ({error}); say how many there are with --gpus, or --file"
        ) from None
    return [line.strip().replace(" ", "-") for line in done.stdout.splitlines() if line.strip()]
