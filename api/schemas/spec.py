"""The core's values as JSON text, the form in which the store keeps them.

Every field is written, defaults too: a stored job means the same when defaults change.
"""

from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter

from scheduler.model.job import JobSpec, Rule
from scheduler.model.node import FabricLevel, NodeType, RackRecord, Taint
from scheduler.model.placement import NoFit
from scheduler.model.plan import Eviction

_JOB = TypeAdapter(JobSpec)
_NODE_TYPE = TypeAdapter(NodeType)
_TAINTS = TypeAdapter(tuple[Taint, ...])
_FABRIC = TypeAdapter(dict[str, FabricLevel])
_RACKS = TypeAdapter(tuple[RackRecord, ...])
_SETS = TypeAdapter(dict[str, dict[str, tuple[str, ...]]])
_VERDICT = TypeAdapter(NoFit)
_RULES = TypeAdapter(tuple[Rule, ...])
_EVICTION = TypeAdapter(Eviction)


_SPECS_KEPT = 4_096
_specs: dict[str, JobSpec] = {}
"""Some of the newest: most jobs are read again soon after they were written, and more than once."""

_KEPT_CHARS_MAX = 8_192
"""Of a text that is kept; most have a thousand, and one that names all its nodes has megabytes."""


def dump_spec(spec: JobSpec) -> str:
    """A job as text; `load_spec` gives an equal one back."""
    text = _JOB.dump_json(spec).decode()
    _remember(text, spec)
    return text


def load_spec(text: str) -> JobSpec:
    known = _specs.get(text)
    if known is None:
        known = _JOB.validate_json(text)
        _remember(text, known)
    return known


def _remember(text: str, spec: JobSpec) -> None:
    if len(text) > _KEPT_CHARS_MAX:
        return
    if len(_specs) >= _SPECS_KEPT:
        _specs.clear()
    _specs[text] = spec


def dump_node_type(node_type: NodeType) -> str:
    return _NODE_TYPE.dump_json(node_type).decode()


def load_node_type(text: str) -> NodeType:
    return _NODE_TYPE.validate_json(text)


def dump_taints(taints: tuple[Taint, ...]) -> str:
    return _TAINTS.dump_json(taints).decode() if taints else "[]"


def load_taints(text: str) -> tuple[Taint, ...]:
    return _TAINTS.validate_json(text) if text != "[]" else ()


def dump_fabric(fabric: Mapping[str, FabricLevel]) -> str:
    return _FABRIC.dump_json(dict(fabric)).decode()


def load_fabric(text: str) -> dict[str, FabricLevel]:
    return _FABRIC.validate_json(text)


def dump_racks(racks: Sequence[RackRecord]) -> str:
    return _RACKS.dump_json(tuple(racks)).decode()


def load_racks(text: str) -> tuple[RackRecord, ...]:
    return _RACKS.validate_json(text)


def dump_sets(sets: Mapping[str, Mapping[str, tuple[str, ...]]]) -> str:
    return _SETS.dump_json({kind: dict(named) for kind, named in sets.items()}).decode()


def load_sets(text: str) -> dict[str, dict[str, tuple[str, ...]]]:
    return _SETS.validate_json(text)


def dump_verdict(verdict: NoFit) -> str:
    return _VERDICT.dump_json(verdict).decode()


def load_verdict(text: str) -> NoFit:
    return _VERDICT.validate_json(text)


def dump_rules(rules: Sequence[Rule]) -> str:
    return _RULES.dump_json(tuple(rules)).decode() if rules else "[]"


def load_rules(text: str) -> tuple[Rule, ...]:
    return _RULES.validate_json(text) if text != "[]" else ()


def dump_eviction(eviction: Eviction | None) -> str | None:
    """How a job leaves; None while it stays."""
    return None if eviction is None else _EVICTION.dump_json(eviction).decode()


def load_eviction(text: str | None) -> Eviction | None:
    return None if text is None else _EVICTION.validate_json(text)
