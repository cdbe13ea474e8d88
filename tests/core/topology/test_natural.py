from scheduler.topology.natural import natural_key


def test_natural_order_compares_digits_as_numbers() -> None:
    assert sorted(["n10", "n2", "n1"], key=natural_key) == ["n1", "n2", "n10"]


def test_natural_order_looks_at_every_number_of_a_name() -> None:
    names = ["r2-n10", "r10-n1", "r2-n9"]
    assert sorted(names, key=natural_key) == ["r2-n9", "r2-n10", "r10-n1"]


def test_natural_order_is_fixed_for_names_that_differ_in_padding() -> None:
    assert sorted(["n1", "n01", "n001"], key=natural_key) == ["n001", "n01", "n1"]


def test_natural_order_compares_names_that_start_with_digits_and_letters() -> None:
    assert sorted(["a1", "10", "9", ""], key=natural_key) == ["", "9", "10", "a1"]


def test_natural_order_takes_numbers_of_any_length() -> None:
    names = ["n" + "9" * 5_001, "n" + "9" * 5_000, "n1"]
    assert sorted(names, key=natural_key) == names[::-1]
