"""The run of 10^6 steps in parts: what is run, what is counted, what is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import soak
from tests.simulation.soak import SEEDS, Blown, add, fingerprint, main, part, read, total

ONE = Blown("new", 5_000, 1_100, 10_500, {"crash": 2}, "", 20.0)


@pytest.mark.parametrize("of", [1, 3, 7, 10, 100])
def test_parts_are_all_storms_each_once(of: int) -> None:
    assert [seed for number in range(of) for seed in part(number, of)] == list(SEEDS)


def test_the_total_counts_storms_of_this_source_once(tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    for blown in (
        ONE,
        ONE,
        replace(ONE, seed=5_001, steps=11_000, happened={"drain": 1_000, "crash": 1}),
        replace(ONE, seed=5_002, source="old"),
    ):
        add(tally, blown)
    assert total(read(tally), "new") == (
        "21,500 steps in 2 storms (3 crash, 1,000 drain), 0 broken promises, source new;"
        " 98 storms of 100 are still to come"
    )


def test_a_broken_promise_is_counted() -> None:
    broken = replace(ONE, broken="promise 1: twice")
    assert "in 1 storms (2 crash), 1 broken promises" in total([broken], "new")


def test_all_storms_are_told_as_done() -> None:
    found = [replace(ONE, seed=seed, steps=10_000) for seed in SEEDS]
    assert total(found, "new") == (
        "1,000,000 steps in 100 storms (200 crash), 0 broken promises, source new"
    )


def test_a_part_is_run_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def blow(seed: int, source: str) -> Blown:
        calls.append(seed)
        return replace(ONE, seed=seed, source=source)

    class InLine:
        """A pool that does its work itself."""

        def __init__(self, max_workers: int | None) -> None:
            assert max_workers == 1

        def __enter__(self) -> "InLine":
            return self

        def __exit__(self, *_: object) -> None: ...

        map = staticmethod(map)

    monkeypatch.setattr(soak, "blow", blow)
    monkeypatch.setattr(soak, "ProcessPoolExecutor", InLine)
    words = ["--part", "1", "--of", "50", "--processes", "1", "--tally", str(tmp_path / "t")]
    assert main(words) == 0
    assert main(words) == 0
    assert calls == [5_002, 5_003]
    assert main(["--total", "--tally", str(tmp_path / "t")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(set(lines)) == 1
    assert lines[0].startswith("21,000 steps in 2 storms (4 crash), 0 broken promises, source ")
    add(tmp_path / "t", replace(ONE, seed=5_009, source=fingerprint(), broken="promise 2: x"))
    assert main(["--total", "--tally", str(tmp_path / "t")]) == 1


@pytest.mark.parametrize("words", [["--part", "5", "--of", "5"], ["--of", "0"], ["--of", "101"]])
def test_parts_that_are_none_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 2


def test_a_storm_tells_its_steps_and_what_happened() -> None:
    found = soak.blow(5_000, "now", 20)
    assert (found.seed, found.source, found.broken) == (5_000, "now", "")
    assert found.steps > 100
    assert found.happened
