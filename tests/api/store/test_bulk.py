"""Arrays as PostgreSQL is given them."""

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.store.bulk import array_of
from scheduler.model.lifecycle import PodState

ODD = st.sampled_from(["NULL", "", "{}", '"', "\\", "a,b", "\x1f"])
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
SHAPES: dict[str, st.SearchStrategy[list[object]]] = {
    "text": st.lists(
        st.none() | TEXT | st.sampled_from(["NULL", "", "{}", '"', "\\", "a,b", "\x1f"])
    ),
    "bigint": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    "double precision": st.lists(st.none() | st.floats(allow_nan=False)),
    "boolean": st.lists(st.none() | st.booleans()),
}


@pytest.mark.parametrize("kind", SHAPES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_array_holds_what_was_given(postgresql_url: str, kind: str, data: st.DataObject) -> None:
    values = data.draw(SHAPES[kind])
    with psycopg.connect(postgresql_url) as connection:
        found = connection.execute(f"SELECT %s::{kind}[]", (array_of(values),)).fetchone()
    assert found is not None
    assert found[0] == values


def test_states_are_texts(postgresql_url: str) -> None:
    values = [PodState.RUNNING, None, PodState.STOPPED]
    with psycopg.connect(postgresql_url) as connection:
        found = connection.execute("SELECT %s::text[]", (array_of(values),)).fetchone()
    assert found is not None
    assert found[0] == ["running", None, "stopped"]


def test_text_that_no_table_takes_is_left_to_the_driver() -> None:
    assert array_of(["a\0b", "c"]) == ["a\0b", "c"]
