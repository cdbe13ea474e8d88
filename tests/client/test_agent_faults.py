"""What a machine says of its faults, and its check; without a service."""

import sys
from pathlib import Path

import pytest

from client.agent_check import Check
from client.agent_faults import Faults, Gpus, Lines, bus_of, faults_of_file, faults_of_kernel
from client.errors import ApiError, ClientError, Unreachable
from tests.client.waiting import until

FELL_OFF = (
    "4,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, "
    "GPU has fallen off the bus."
)


def smi(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r})")


def asked(gpus: Gpus, now: float) -> list[dict[str, object]]:
    """What a look at this time brings, once the command has ended."""
    assert gpus.look(now) == []
    assert gpus._asked is not None
    gpus._asked.wait()
    return gpus.look(now)


def test_xid_of_the_kernels_log_names_its_gpu() -> None:
    (found,) = faults_of_kernel(["nothing", FELL_OFF], {"0000:3b:00": 3})
    assert (found["xid"], found["gpus"]) == (79, [3])
    assert "fallen off the bus" in str(found["message"])
    (unknown,) = faults_of_kernel(["NVRM: Xid (PCI:0000:aa:00): 31"], {})
    assert unknown == {"xid": 31, "message": ""}


def test_address_on_the_bus_is_the_same_however_it_is_written() -> None:
    assert bus_of("00000000:3B:00.0") == bus_of("0000:3b:00") == "0000:3b:00"


def test_nvidia_smi_tells_of_new_ecc_errors_and_of_gpus_that_are_gone() -> None:
    gpus = Gpus(smi("0, 00000000:3B:00.0, 0\n1, 00000000:5E:00.0, [N/A]"))
    assert asked(gpus, 0) == []
    assert gpus.of_bus == {"0000:3b:00": 0, "0000:5e:00": 1}
    assert gpus.look(59) == []
    gpus.command = smi("0, 00000000:3B:00.0, 2")
    first, second = asked(gpus, 60)
    assert (first["code"], first["gpus"]) == ("ecc_dbe", [0])
    assert (second["xid"], second["gpus"]) == (79, [1])
    assert asked(gpus, 120) == []


def test_machine_without_nvidia_smi_is_asked_once() -> None:
    gpus = Gpus(("/no/such/nvidia-smi",))
    assert gpus.look(0) == []
    assert gpus.look(1e9) == []
    assert gpus._asked is None


def test_only_lines_that_are_new_are_read_and_a_rotated_file_from_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    lines = Lines(path)
    assert lines.read() == []
    with path.open("a") as file:
        file.write("one\ntw")
    assert lines.read() == ["one"]
    with path.open("a") as file:
        file.write("o\n")
    assert lines.read() == ["two"]
    path.rename(tmp_path / "log.1")
    path.write_text("three\n")
    assert lines.read() == ["three"]
    path.write_text("4\n")
    assert lines.read() == ["4"]
    missing = Lines(tmp_path / "later")
    assert missing.read() == []
    (tmp_path / "later").write_text("five\n")
    assert missing.read() == ["five"]


def test_file_states_faults_in_json_and_what_is_none_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = faults_of_file(['{"code": "disk"}', "", "no json", "[1]"])
    assert found == [{"code": "disk"}]
    assert capsys.readouterr().err.count("not a fault") == 2


class Service:
    """Takes faults, or does not."""

    def __init__(self, error: ClientError | None = None) -> None:
        self.error = error
        self.taken: list[dict[str, object]] = []

    def send(self, body: dict[str, object]) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(body)


def test_fault_waits_for_a_service_that_is_away_and_is_sent_once(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    path.touch()
    faults = Faults(None, path, Gpus(("/no/such/nvidia-smi",)))
    path.write_text('{"code": "disk"}\n{"code": "disk"}\n')
    faults.look()
    with pytest.raises(ClientError):
        faults.report(Service(Unreachable("http://x", "no answer")).send)
    service = Service()
    faults.report(service.send)
    faults.report(service.send)
    assert service.taken == [{"code": "disk"}]


def test_fault_that_the_service_does_not_take_is_dropped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    faults = Faults(None, None, Gpus(("/no/such/nvidia-smi",)))
    faults.waiting = [{"code": "no_such_code"}]
    faults.report(Service(ApiError(422, "wrong", "code: unknown", ())).send)
    assert faults.waiting == []
    assert "is not taken" in capsys.readouterr().err


def run(check: Check) -> None:
    """Let a check begin, and go on until it has ended."""
    check.go_on("testing")
    until(lambda: check._running is None or check._running.poll() is not None)
    check.go_on("testing")


def test_check_that_goes_well_has_passed_until_the_node_is_not_testing_any_more() -> None:
    check = Check("true")
    check.go_on("healthy")
    assert check._running is None
    run(check)
    assert (check.passed, check.take_failure()) == (True, "")
    check.go_on("healthy")
    assert not check.passed


def test_check_that_fails_tells_what_it_said_once() -> None:
    check = Check("sh -c 'echo no link on mlx5_3; exit 3'")
    run(check)
    assert not check.passed
    assert check.take_failure() == "exit code 3: no link on mlx5_3"
    assert check.take_failure() == ""
    check.go_on("testing")
    assert check._running is None  # not again at once


def test_check_that_takes_too_long_is_ended_and_one_that_is_not_there_fails() -> None:
    check = Check("sleep 60", timeout_s=0.0)
    check.go_on("testing")
    check.go_on("testing")
    until(lambda: check._running is None or check._running.poll() is not None)
    check.go_on("testing")
    assert "exit code -9" in check.take_failure()
    missing = Check("/no/such/check")
    missing.go_on("testing")
    assert "cannot be run" in missing.take_failure()
