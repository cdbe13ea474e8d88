"""The doctor's comparison of the ledger with the pods."""

from api.store.engine import Database
from api.store.ledger import audit_ledger
from tests.api.store.build import bind, load_cluster, make_spec, submit
from tests.api.store.raw import add_claim, add_job, execute, switch_off_triggers


def test_ledger_that_agrees_is_clean(database: Database) -> None:
    load_cluster(database)
    bind(database, submit(database, "a"), ["n001", "n002"])
    audit = audit_ledger(database)
    assert audit.is_clean
    assert (audit.nodes, audit.pods) == (4, 2)


def test_every_number_that_differs_is_found(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    bind(database, job, ["n001"], mask=0b11)
    execute(database, "UPDATE node_usage SET gpu_mask_used = 7 WHERE node = 'n001'")
    execute(database, "UPDATE node_usage SET pods = 3, cpu_milli_used = 5 WHERE node = 'n002'")
    execute(database, "UPDATE jobs SET gpus_held = 9, pods_running = 1")
    found = {str(difference) for difference in audit_ledger(database).differences}
    assert found == {
        "node 'n001': gpu_mask_used is 7, pods say 3",
        "node 'n002': pods is 3, pods say 0",
        "node 'n002': cpu_milli_used is 5, pods say 0",
        f"job '{job.uid}': gpus_held is 9, pods say 2",
        f"job '{job.uid}': pods_running is 1, pods say 0",
    }


def test_what_says_that_it_holds_nothing_though_it_has_pods_is_found(database: Database) -> None:
    """Rows that say 0 are left out of the comparison, unless live pods are of them."""
    load_cluster(database)
    job = submit(database, make_spec("a", replicas=1))
    waits = submit(database, make_spec("b", replicas=4))
    bind(database, job, ["n001"], mask=0b11)
    execute(database, "UPDATE node_usage SET gpu_mask_used = 0, pods = 0 WHERE node = 'n001'")
    execute(database, "UPDATE jobs SET gpus_held = 0, pods_live = 0 WHERE name = 'a'")
    execute(database, "UPDATE jobs SET pods_live = 2 WHERE name = 'b'")
    found = {str(difference) for difference in audit_ledger(database).differences}
    assert found == {
        "node 'n001': gpu_mask_used is 0, pods say 3",
        "node 'n001': pods is 0, pods say 1",
        f"job '{job.uid}': pods_live is 0, pods say 1",
        f"job '{job.uid}': gpus_held is 0, pods say 2",
        f"job '{waits.uid}': pods_live is 2, pods say 0",
    }


def test_gpu_held_twice_is_found_where_the_triggers_were_off(database: Database) -> None:
    load_cluster(database)
    first, second = (submit(database, make_spec(name, replicas=1)) for name in "ab")
    bind(database, first, ["n001"])
    bind(database, second, ["n002"])
    if database.is_sqlite:
        execute(database, "DROP TRIGGER pods_move")
        execute(database, "UPDATE pods SET node = 'n001'")
    else:
        execute(database, "ALTER TABLE pods DISABLE TRIGGER pods_update")
        execute(database, "UPDATE pods SET node = 'n001'")
        execute(database, "ALTER TABLE pods ENABLE TRIGGER pods_update")
    audit = audit_ledger(database)
    assert len(audit.doubles) == 1
    assert "of node 'n001' that another live pod holds" in str(audit.doubles[0])
    assert set(audit.parts.nodes) == {"n001", "n002"}
    assert set(audit.parts.jobs) == {first.uid, second.uid}
    assert not audit.is_clean


def test_live_pod_on_a_node_that_is_gone_is_found(database: Database) -> None:
    load_cluster(database)
    bind(database, submit(database, make_spec("a", replicas=1)), ["n001"])
    execute(database, "UPDATE node_usage SET pods = 0 WHERE node = 'n001'")
    execute(database, "DELETE FROM node_usage WHERE node = 'n001'")
    found = [str(difference) for difference in audit_ledger(database).differences]
    assert found == ["node 'n001': pods is 0, pods say 1"]


def test_claims_that_are_as_they_should_be_are_clean(database: Database) -> None:
    load_cluster(database)
    add_job(database, "j", state="reserved")
    add_claim(database, "c-0", 0x0F, node="n001")
    add_claim(database, "c-1", 0xF0, node="n001")
    audit = audit_ledger(database)
    assert audit.is_clean
    assert audit.claims == 2


def test_claims_that_should_not_be_are_found_where_the_triggers_were_off(
    database: Database,
) -> None:
    load_cluster(database)
    add_job(database, "j", state="cancelled")
    bind(database, submit(database, make_spec("a", replicas=1)), ["n002"], mask=0b11)
    for table in ("claims", "pods"):
        switch_off_triggers(database, table)
    add_claim(database, "c-0", 0b110, node="n001", until=10.0)
    add_claim(database, "c-1", 0b011, node="n001", starts=9.0)
    add_claim(database, "c-2", 0b011, node="n001", starts=4.0, until=9.0)
    add_claim(database, "c-3", 1 << 9 | 1, node="n002")
    audit = audit_ledger(database)
    assert not audit.is_clean
    ended = [f"claim 'c-{number}' is of job 'j', which has ended" for number in range(4)]
    faults = list(map(str, audit.claim_faults))
    (pod,) = [fault for fault in faults if fault.startswith("pod")]
    assert pod.endswith("stays on GPUs of node 'n002' that claim 'c-3' is to have")
    assert [fault for fault in faults if fault != pod] == [
        "claims 'c-0' and 'c-1' have the same GPUs of node 'n001' at one time",
        "claims 'c-0' and 'c-2' have the same GPUs of node 'n001' at one time",
        "claim 'c-3' has GPUs that node 'n002' does not have",
        *ended,
    ]
