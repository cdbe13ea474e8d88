"""Small pieces of text: ages, ranges, what a terminal must not be told."""

import pytest

from client.cli import text
from client.cli.labels import matcher
from client.cli.output import json_text, yaml_text
from client.cli.tree import bar
from client.cli.verdict import nearest_text, verdict_pairs
from client.shapes import Nearest
from tests.client.sample import NOW_S, make_verdict


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (18_120, "5h2m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (273_600, "3d4h"),
        (691_200, "8d"),
        (40_000_000, "462d"),
    ],
)
def test_duration_is_finer_where_it_is_short(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("2026-06-01T11:56:48Z", "3m12s"),
        ("2026-06-01T11:56:48.000Z", "3m12s"),
        ("2026-06-01T13:56:48+02:00", "3m12s"),
        ("2026-06-01T12:00:09Z", "0s"),
        ("yesterday", "-"),
        (None, "-"),
    ],
)
def test_age_is_counted_from_an_rfc_3339_time(
    monkeypatch: pytest.MonkeyPatch, stamp: str | None, shown: str
) -> None:
    monkeypatch.setattr(text, "clock", lambda: NOW_S)
    assert text.age(stamp) == shown


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("plain-name", "plain-name"),
        ("naïve 名前", "naïve 名前"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\rb\nc\td\x00", r"a\rb\nc\td\x00"),
        ("a\u202etxt.exe", r"a\u202etxt.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\ud800", r"\ud800"),
    ],
)
def test_text_that_could_steer_a_terminal_is_made_visible(hostile: str, harmless: str) -> None:
    assert text.clean(hostile) == harmless


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\x7f", "\u202e", "\x00"])
def test_data_formats_write_controls_as_escapes(character: str) -> None:
    for written in (json_text([character]), yaml_text([character])):
        assert character not in written


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3], "0-3"), ([0, 2, 3, 7], "0,2-3,7")],
)
def test_numbers_are_drawn_together_in_runs(numbers: list[int], shown: str) -> None:
    assert text.ranges(numbers) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), ("", "-"), ([], "-"), (0, "0"), (2.0, "2"), (2.5, "2.5"), (True, "yes")],
)
def test_cell_shows_what_is_not_known_as_a_dash(value: object, shown: str) -> None:
    assert text.shown(value) == shown


def test_width_counts_what_a_terminal_shows() -> None:
    assert [text.cell_count(t) for t in ("abc", "名前", "e\u0301", "naïve")] == [3, 4, 1, 5]


@pytest.mark.parametrize(
    ("taken", "total", "shown"),
    [
        (0, 100, "[..........] 0%"),
        (1, 1000, "[#.........] 0%"),
        (50, 100, "[#####.....] 50%"),
        (999, 1000, "[#########.] 99%"),
        (100, 100, "[##########] 100%"),
        (0, 0, "-"),
    ],
)
def test_bar_is_full_or_empty_only_when_all_is(taken: int, total: int, shown: str) -> None:
    assert bar(taken, total) == shown


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, True),
        ("zone=a", True),
        ("zone==a", True),
        ("zone=b", False),
        ("zone!=b", True),
        ("zone!=a", False),
        ("team!=x", True),
        ("zone", True),
        ("!zone", False),
        ("team", False),
        ("!team", True),
        ("zone=a,!team", True),
        (" zone = a , team ", False),
    ],
)
def test_selector_matches_labels_as_kubectl_does(selector: str | None, *, matches: bool) -> None:
    assert matcher(selector)({"zone": "a"}) is matches


@pytest.mark.parametrize(
    ("nearest", "shown"),
    [
        (
            {"level": "leaf", "domain": "l3", "lacks": {"nodes": 1, "gpus": 8}},
            "leaf 'l3' lacks 1 node (8 GPUs)",
        ),
        (
            {"level": "rack", "domain": "r1", "lacks": {"nodes": 0, "gpus": 1}},
            "rack 'r1' lacks 1 GPU",
        ),
        (
            {"level": "", "domain": "", "lacks": {"nodes": 2, "gpus": 0}},
            "the cluster lacks 2 nodes",
        ),
        ({"level": "leaf", "domain": "l3"}, "leaf 'l3'"),
    ],
)
def test_nearest_domain_is_told_with_what_it_lacks(nearest: Nearest, shown: str) -> None:
    assert nearest_text(nearest) == shown


def test_verdict_tells_all_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "clock", lambda: NOW_S)
    verdict = make_verdict(expected_start="2026-06-01T12:30:00Z", search="bounded")
    told = dict(verdict_pairs(verdict))
    assert told["Expected start"] == "2026-06-01T12:30:00Z, in 30m"
    assert told["Search"] == "cut short; a place may have been missed"
    assert list(verdict_pairs({"fits": True})) == []
