"""Tokens and the audit log at rest, on both databases."""

import pytest
import sqlalchemy as sa

from api.auth import Caller, Role
from api.auth.tokens import SESSION
from api.store.audit_log import Entry, Wanted, add_entries, list_entries, prune_entries
from api.store.engine import Database
from api.store.errors import Conflict, NotFound
from api.store.tables_security import tokens
from api.store.tokens import (
    add_token,
    key_version,
    list_tokens,
    load_keys,
    note_use,
    open_session,
    revoke,
    rotate,
)

ANNA = Caller("anna", Role.SUBMITTER, frozenset({"research", "vision"}))
AGENT = Caller("n1", Role.AGENT, nodes=frozenset({"n1", "n2"}))


def test_token_is_kept_as_its_digest_alone(database: Database) -> None:
    assert key_version(database) == 0
    made = add_token(database, ANNA, now_s=10.0, expires_at=20.0)
    with database.read() as connection:
        rows = repr(connection.execute(sa.select(tokens)).all())
    assert made.text not in rows
    assert made.text[13:] not in rows
    keys = load_keys(database, 10.0)
    assert keys.version == key_version(database) == 1
    token = keys.tokens[made.id]
    assert (token.caller, token.digest, token.expires_at) == (ANNA, made.digest, 20.0)


def test_token_of_a_good_name_is_not_made_twice(database: Database) -> None:
    add_token(database, AGENT, now_s=10.0, expires_at=20.0)
    with pytest.raises(Conflict, match="podyard token rotate n1"):
        add_token(database, AGENT, now_s=15.0)
    add_token(database, AGENT, now_s=25.0)
    assert [token.is_good(25.0) for token in list_tokens(database)] == [False, True]
    assert all(token.caller == AGENT for token in list_tokens(database))


def test_tokens_that_are_over_or_revoked_are_not_loaded(database: Database) -> None:
    add_token(database, ANNA, now_s=10.0, expires_at=20.0)
    good = add_token(database, AGENT, now_s=10.0)
    gone = add_token(database, Caller("x", Role.ADMIN), now_s=10.0)
    assert revoke(database, gone.id, now_s=11.0) == [gone.id]
    assert set(load_keys(database, 30.0).tokens) == {good.id}
    with pytest.raises(NotFound):
        revoke(database, "x", now_s=12.0)


def test_rotation_ends_the_old_token_after_the_overlap(database: Database) -> None:
    old = add_token(database, ANNA, now_s=10.0, expires_at=1_000.0)
    new = rotate(database, "anna", now_s=20.0, overlap_s=5.0, expires_at=None)
    found = load_keys(database, 20.0).tokens
    assert (found[old.id].expires_at, found[new.id].expires_at) == (25.0, None)
    assert found[new.id].caller == ANNA
    again = rotate(database, "anna", now_s=21.0, overlap_s=100.0, expires_at=None)
    found = load_keys(database, 21.0).tokens
    assert found[old.id].expires_at == 25.0, "an overlap never makes a token last longer"
    assert found[new.id].expires_at == 121.0
    assert set(found) == {old.id, new.id, again.id}
    with pytest.raises(NotFound):
        rotate(database, "nobody", now_s=21.0, overlap_s=0.0, expires_at=None)


def test_sessions_are_no_tokens_and_go_when_they_are_over(database: Database) -> None:
    parent = add_token(database, ANNA, now_s=10.0)
    made = open_session(database, ANNA, parent.id, now_s=10.0, expires_at=20.0)
    assert made.id.startswith(SESSION)
    assert load_keys(database, 10.0).tokens[made.id].parent == parent.id
    assert [token.id for token in list_tokens(database)] == [parent.id]
    with pytest.raises(NotFound):
        rotate(database, made.id, now_s=11.0, overlap_s=0.0, expires_at=None)
    later_s = 20.0 + 86_401
    open_session(database, ANNA, parent.id, now_s=later_s, expires_at=later_s + 10)
    with database.read() as connection:
        ids = connection.execute(sa.select(tokens.c.id)).scalars().all()
    assert made.id not in ids
    assert len(ids) == 2


def test_use_of_tokens_is_no_change_that_others_hear_of(database: Database) -> None:
    made = add_token(database, ANNA, now_s=10.0)
    version = key_version(database)
    note_use(database, {made.id: 99.0, "pyd_none": 1.0})
    assert list_tokens(database)[0].used_at == 99.0
    assert key_version(database) == version


def test_entries_are_kept_found_and_pruned(database: Database) -> None:
    made = [
        Entry(float(at), f"c{at % 2}", "admin", "POST", f"/v1/x_{at}", 200 + at, "r", "::1")
        for at in range(1, 6)
    ]
    add_entries(database, made)
    page = list_entries(database, Wanted(), 2)
    assert [entry.at for entry in page.items] == [5.0, 4.0]
    rest = list_entries(database, Wanted(), 10, page.next)
    assert [entry.at for entry in rest.items] == [3.0, 2.0, 1.0]
    assert rest.next is None
    assert [e.at for e in list_entries(database, Wanted(actor="c0"), 10).items] == [4.0, 2.0]
    assert list_entries(database, Wanted(path="/v1/x%"), 10).items == ()
    assert len(list_entries(database, Wanted(path="/v1/x_"), 10).items) == 5
    assert [e.at for e in list_entries(database, Wanted(since=5.0), 10).items] == [5.0]
    assert prune_entries(database, 4.0) == 3
    assert len(list_entries(database, Wanted(refused=False), 10).items) == 2
    assert list_entries(database, Wanted(refused=True), 10).items == ()
