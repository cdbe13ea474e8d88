"""Stored jobs: what was written before a field existed, and what is written now."""

import json
from dataclasses import replace

import pytest

from api.schemas.job import JobBody
from api.schemas.job_spec import read_job
from api.schemas.spec import dump_spec, load_spec
from scheduler.model.job import ModelShape

BODY: dict[str, object] = {
    "name": "a",
    "parallelism": {"tp": 8, "pp": 4, "dp": 8},
    "model": {"params": 7e9, "layers": 32, "hidden": 4096, "seq": 4096, "experts": 8, "top_k": 2},
    "axis_weights": {"dp": 10.0, "pp": 1.0},
}


def test_job_with_a_model_and_weights_is_read_back_as_it_was() -> None:
    spec = read_job(JobBody.model_validate(BODY)).spec
    assert spec.model == ModelShape(7e9, 32, 4_096, 4_096, experts=8, top_k=2)
    assert spec.axis_weights == {"dp": 10.0, "pp": 1.0}
    assert load_spec(dump_spec(spec)) == spec


def test_spec_is_remembered_unless_its_text_is_long() -> None:
    short = read_job(JobBody.model_validate(BODY)).spec
    long = replace(short, nodes=tuple(f"node-{number:04}" for number in range(1_000)))
    assert load_spec(dump_spec(short)) is load_spec(dump_spec(short))
    assert load_spec(dump_spec(long)) == long
    assert load_spec(dump_spec(long)) is not long


@pytest.mark.parametrize("shape", [{"params": 7e9, "layers": 32, "hidden": 8, "seq": 8}, None])
def test_job_stored_before_models_were_read_still_loads(shape: object) -> None:
    stored = json.loads(dump_spec(read_job(JobBody.model_validate(BODY)).spec))
    del stored["model"], stored["axis_weights"]
    stored["extra"] = {"model": shape} if shape else {}
    old = load_spec(json.dumps(stored))
    assert (old.model, old.axis_weights) == (None, {})
    assert old.extra == stored["extra"]
