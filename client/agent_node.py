"""What node this is: read from the machine or from a file, and made known to the service."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from client.errors import ApiError, InputError
from client.http import Client

NOT_FOUND = 404

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
        client.import_inventory(content)
        return
    try:
        client.node(machine.name)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        made = inventory(machine, list(client.topology()["levels"]))
        client.import_inventory(json.dumps(made).encode(), format="podyard")


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
