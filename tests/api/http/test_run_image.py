"""Images of jobs: refused where nothing runs them, else behind the launcher of the settings."""

import pytest

from api.clock import ManualClock
from api.http.launching import command_of
from api.settings import Settings, read_settings
from api.store.engine import Database
from api.store.launches import Start
from tests.api.http.contract import Contract
from tests.api.http.yard import Yard

RUN = {"image": "registry.example.com/train:1.2", "command": ["python", "train.py"]}
LAUNCHER = "apptainer exec --nv 'docker://{image}'"


def make_start(**run: object) -> Start:
    return Start(run, is_strict=False, lost_after_s=None, members=(), checkpoint=None)


def test_image_is_refused_and_told_which_setting_would_let_it_in(any_yard: Yard) -> None:
    body = {"name": "j", "parallelism": {"tp": 8}, "run": RUN}
    message = any_yard.refused(422, "POST", "/v1/jobs", body)["run.image"]
    assert "PODYARD_LAUNCHER" in message
    assert "registry.example.com/train:1.2" in message


@pytest.mark.parametrize("image", ["--privileged", "a b", "", "x" * 501, "a\nb"])
def test_image_that_is_no_name_is_refused(any_yard: Yard, image: str) -> None:
    body = {"name": "j", "parallelism": {"tp": 8}, "run": RUN | {"image": image}}
    assert "run.image" in any_yard.refused(422, "POST", "/v1/jobs", body)


def test_image_is_run_by_the_launcher_as_one_word(database: Database, contract: Contract) -> None:
    with Yard(database, contract, ManualClock(), launcher=LAUNCHER) as yard:
        yard.load()
        body = {"name": "j", "parallelism": {"tp": 8}, "run": {"image": "i"}}
        assert "run.command" in yard.refused(422, "POST", "/v1/jobs", body)
        yard.submit(parallelism={"tp": 8}, nodes=["a1"], run=RUN)
        yard.cycle()
        beat = {"session": "s1", "boot_id": "b1", "pods": []}
        desired = yard.ok("POST", "/v1/nodes/a1/heartbeat", beat)["desired"]
        assert isinstance(desired, list)
        (pod,) = desired
        image = "docker://registry.example.com/train:1.2"
        assert pod["launch"]["command"] == [
            *("apptainer", "exec", "--nv", image),
            *("python", "train.py"),
        ]


def test_image_without_the_launcher_it_was_taken_with_leaves_nothing_to_start() -> None:
    assert command_of(make_start(**RUN), "") == []
    assert command_of(make_start(command=["x"]), "") == ["x"]


def test_launcher_without_a_place_for_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"launcher: .*\{image\} must be in one of its words"):
        read_settings({"launcher": "docker run"})
    assert Settings(launcher=LAUNCHER).launcher == LAUNCHER
