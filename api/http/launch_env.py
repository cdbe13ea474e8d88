"""What members of one role run, and what is filled into the environment of a pod that starts."""

import json
import re
from collections.abc import Mapping, Sequence

from api.store.launches import Start
from api.store.views import PodView
from scheduler.model.lifecycle import PodState

_UNDER_WAY = (PodState.RUNNING, PodState.SUCCEEDED)

_NAME = re.compile(
    r"\$\((?:pod\.(?P<own>index|name|node)(?:\+(?P<more>[0-9]{1,6}))?"
    r"|(?P<what>hosts|count)\.(?P<role>[A-Za-z0-9_.-]{1,63})"
    r"|peers\.(?P<peers>[A-Za-z0-9_.-]{1,63}):(?P<port>[0-9]{1,5}))\)"
)


def run_of(role: str, run: Mapping[str, object]) -> dict[str, object]:
    """What the members of a role run: what is said of the role, else what is said of all."""
    roles = run.get("roles")
    own = roles.get(role) if isinstance(roles, Mapping) else None
    if not isinstance(own, Mapping):
        return dict(run)
    env = {**_mapping(run.get("env")), **_mapping(own.get("env"))}
    return {**run, **{k: v for k, v in own.items() if v is not None}, "env": env}


def waits(pod: PodView, start: Start) -> bool:
    """Whether a pod is not to start yet: too few members of roles before its own run."""
    stated = run_of(pod.role, start.run)
    after = _mapping(stated.get("after"))
    if not after:
        return False
    enough = [
        sum(m.role == role and m.state in _UNDER_WAY for m in start.members) >= int(str(count))
        for role, count in after.items()
    ]
    return not (any(enough) if stated.get("after_any") else all(enough))


def filled_in(env: object, pod: PodView, members: Sequence[PodView]) -> dict[str, str]:
    """An environment with the places of the gang's members in it.

    Args:
        members: Of the gang, those that run or are to.
    """

    def value_of(found: re.Match[str]) -> str:
        if found["own"]:
            return _own(found, pod)
        role = found["role"] or found["peers"]
        nodes = [m.node for m in sorted(members, key=lambda m: m.index) if m.role == role]
        if found["peers"]:
            return json.dumps([f"{node}:{found['port']}" for node in nodes])
        return ",".join(nodes) if found["what"] == "hosts" else str(len(nodes))

    return {name: _NAME.sub(value_of, str(value)) for name, value in _mapping(env).items()}


def _own(found: re.Match[str], pod: PodView) -> str:
    if found["own"] == "index":
        return str(pod.index + int(found["more"] or 0))
    if found["more"]:
        return found[0]
    return pod.name if found["own"] == "name" else pod.node


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
