"""What `yardctl describe` says of a job's shape."""

from client.cli.describe import shape_text


def test_sizes_that_a_job_may_start_with_are_all_named() -> None:
    spec: dict[str, object] = {"parallelism": {"tp": 8, "pp": 1, "dp": {"sizes": [8, 16]}}}
    assert shape_text(spec) == "tp 8, dp 8 or 16"


def test_axes_of_size_one_are_left_out() -> None:
    assert shape_text({"parallelism": {"tp": 1, "dp": 1}}) == "1 rank"
