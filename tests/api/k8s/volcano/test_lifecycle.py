"""Volcano jobs from their submission to their end: policies, commands, dependants of time."""

from typing import Any

import pytest

from api.clock import ManualClock
from tests.api.k8s.reviews import job, task
from tests.api.k8s.volcano.yards import VolcanoYard


def start(volcano: VolcanoYard, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:  # noqa: ANN401  # any JSON
    """A job that runs."""
    made = volcano.apply(job(*tasks, **spec))
    volcano.turn()
    volcano.run("train")
    assert volcano.phase(made) == "Running"
    return made


def tick(volcano: VolcanoYard, seconds: float) -> None:
    clock = volcano.yard.clock
    assert isinstance(clock, ManualClock)
    clock.advance(seconds)
    volcano.turn()


def policy(action: str, event: str = "PodFailed", **fields: object) -> dict[str, object]:
    return {"action": action, "event": event} | fields


def test_job_goes_from_pending_over_running_to_completed(volcano: VolcanoYard) -> None:
    made = volcano.apply(job(minAvailable=2))
    assert made["status"]["state"]["phase"] == "Pending"
    volcano.turn()
    assert volcano.phase(made) == "Pending"
    volcano.run("train")
    running = volcano.get(made)["status"]
    assert (running["state"]["phase"], running["running"]) == ("Running", 2)
    assert running["taskStatusCount"] == {"worker": {"phase": {"Running": 2}}}
    volcano.run("train", "succeeded", 0)
    done = volcano.get(made)["status"]
    assert (done["state"]["phase"], done["succeeded"]) == ("Completed", 2)
    assert [c["status"] for c in done["conditions"]] == ["Pending", "Running", "Completed"]


@pytest.mark.parametrize(
    ("action", "phase"),
    [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")],
)
def test_failed_pod_leads_to_the_action_of_its_policy(
    volcano: VolcanoYard, action: str, phase: str
) -> None:
    made = start(volcano, policies=[policy(action)])
    volcano.report(volcano.pods("train")[0], "failed", 1)
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == phase
    assert "PodFailed" in volcano.get(made)["status"]["state"]["message"]
    told = volcano.yard.items("/v1/events?kind=job.execute_action")
    assert [str(event["message"]).partition(":")[0] for event in told] == [action]


def test_policy_of_the_task_comes_before_that_of_the_job(volcano: VolcanoYard) -> None:
    tasks = (
        task("calm", 1, policies=[policy("CompleteJob")]),
        task("rash", 1),
    )
    made = start(volcano, *tasks, minAvailable=2, policies=[policy("TerminateJob")])
    (calm,) = [pod for pod in volcano.pods("train") if pod["role"] == "calm"]
    volcano.report(calm, "failed", 1)
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Completed"


def test_exit_code_chooses_the_action(volcano: VolcanoYard) -> None:
    policies = [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 9, "action": "TerminateJob"}]
    made = start(volcano, policies=policies)
    volcano.report(volcano.pods("train")[0], "failed", 9)
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Terminated"


def test_job_restarts_as_often_as_it_may_and_then_fails(volcano: VolcanoYard) -> None:
    made = start(volcano, policies=[policy("RestartJob")], maxRetry=3)
    for attempt in (1, 2):
        volcano.report(volcano.pods("train")[0], "failed", attempt)
        volcano.turn()
        tick(volcano, 400)
        volcano.run("train")
        assert volcano.phase(made) == "Running"
        assert volcano.get(made)["status"]["retryCount"] == attempt
    volcano.report(volcano.pods("train")[0], "failed", 7)
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Failed"


def test_delayed_action_waits_for_its_time(volcano: VolcanoYard) -> None:
    made = start(volcano, policies=[policy("TerminateJob", "PodEvicted", timeout="10m")])
    volcano.report(volcano.pods("train")[0], "stopped")
    volcano.turn()
    tick(volcano, 599)
    assert volcano.phase(made) not in ("Terminating", "Terminated")
    tick(volcano, 2)
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Terminated"


def test_delayed_action_is_called_off_by_a_pod_that_runs_again(volcano: VolcanoYard) -> None:
    made = start(volcano, policies=[policy("TerminateJob", "PodEvicted", timeout="10m")])
    volcano.report(volcano.pods("train")[0], "stopped")
    volcano.turn()
    volcano.run("train")
    tick(volcano, 1_200)
    assert volcano.phase(made) == "Running"


def test_job_that_waits_too_long_is_aborted(volcano: VolcanoYard) -> None:
    many = task(replicas=2, policies=[policy("AbortJob", "PodPending", timeout="1h")])
    many["template"]["spec"]["nodeSelector"] = {"no": "such"}
    made = volcano.apply(job(many, minAvailable=2))
    volcano.turn()
    tick(volcano, 3_599)
    assert volcano.phase(made) == "Pending"
    tick(volcano, 2)
    assert volcano.phase(made) == "Aborted"


def test_any_of_several_deciding_tasks_completes_the_job(volcano: VolcanoYard) -> None:
    done = [policy("CompleteJob", "TaskCompleted")]
    tasks = (task("left", 1, policies=done), task("right", 1, policies=done))
    made = start(volcano, *tasks, minAvailable=2)
    volcano.run("train", "succeeded", 0, role="left")
    volcano.run("train", "stopped", role="right")
    assert volcano.phase(made) == "Completed"


def test_deciding_task_completes_the_job_by_itself(volcano: VolcanoYard) -> None:
    done = [policy("CompleteJob", "TaskCompleted")]
    made = start(volcano, task("master", 1, policies=done), task("worker", 2), minAvailable=3)
    volcano.run("train", "succeeded", 0, role="master")
    assert volcano.phase(made) == "Completed"


def test_enough_successes_complete_the_job(volcano: VolcanoYard) -> None:
    made = start(volcano, task(replicas=3), minAvailable=3, minSuccess=2)
    for pod in volcano.pods("train")[:2]:
        assert volcano.phase(made) == "Running"
        volcano.report(pod, "succeeded", 0)
        volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Completed"


def test_record_is_deleted_when_its_time_is_up(volcano: VolcanoYard) -> None:
    made = start(volcano, ttlSecondsAfterFinished=600)
    volcano.run("train", "succeeded", 0)
    tick(volcano, 599)
    assert volcano.phase(made) == "Completed"
    tick(volcano, 2)
    assert volcano.call("GET", f"{volcano.path(made)}/train").status_code == 404
    assert volcano.yard.call("GET", "/v1/namespaces/default/jobs/train").status_code == 404


def test_job_that_is_deleted_before_its_time_is_forgotten(volcano: VolcanoYard) -> None:
    made = start(volcano, ttlSecondsAfterFinished=100_000_000)
    volcano.run("train", "succeeded", 0)
    volcano.turn()
    assert volcano.lifecycle.remembered == 2
    assert volcano.call("DELETE", f"{volcano.path(made)}/train").status_code == 200
    volcano.turn()
    assert volcano.lifecycle.remembered == 0


def test_watcher_that_begins_anew_acts_on_what_it_missed(volcano: VolcanoYard) -> None:
    made = start(volcano, policies=[policy("TerminateJob")])
    volcano.report(volcano.pods("train")[0], "failed", 1)
    volcano.yard.cycle()
    fresh = VolcanoYard(volcano.yard)
    fresh.turn()
    fresh.run("train", "stopped")
    assert fresh.phase(made) == "Terminated"


def test_two_watchers_act_once(volcano: VolcanoYard) -> None:
    made = start(volcano, policies=[policy("RestartJob", timeout="1s")], maxRetry=5)
    other = VolcanoYard(volcano.yard)
    other.lifecycle.step()
    volcano.report(volcano.pods("train")[0], "failed", 1)
    for watcher in (volcano.lifecycle, other.lifecycle):
        watcher.step()
    tick(volcano, 2)
    other.lifecycle.step()
    assert volcano.get(made)["status"]["retryCount"] == 1


# -- commands -------------------------------------------------------------------------------------


def test_job_is_suspended_and_resumed_by_commands(volcano: VolcanoYard) -> None:
    made = start(volcano)
    assert volcano.command(made, "AbortJob").status_code == 201
    assert volcano.phase(made) == "Aborting"
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Aborted"
    assert volcano.command(made, "ResumeJob").status_code == 201
    assert volcano.phase(made) == "Restarting"
    volcano.turn()
    volcano.run("train")
    assert volcano.phase(made) == "Running"


def test_job_is_restarted_and_terminated_by_commands(volcano: VolcanoYard) -> None:
    made = start(volcano)
    assert volcano.command(made, "RestartJob").status_code == 201
    assert volcano.phase(made) == "Restarting"
    volcano.turn()
    volcano.run("train", "stopped")
    volcano.turn()
    volcano.run("train")
    assert volcano.phase(made) == "Running"
    assert volcano.command(made, "TerminateJob").status_code == 201
    volcano.turn()
    volcano.run("train", "stopped")
    assert volcano.phase(made) == "Terminated"


def test_command_about_nothing_or_of_no_sense_is_refused(volcano: VolcanoYard) -> None:
    made = volcano.apply(job())
    assert volcano.command(made, "Dance").status_code == 422
    assert volcano.command(made, "OpenQueue").status_code == 422
    gone = made | {"metadata": made["metadata"] | {"name": "nobody"}}
    assert volcano.command(gone, "AbortJob").status_code == 404
    other = made | {"metadata": made["metadata"] | {"uid": "another"}}
    assert volcano.command(other, "AbortJob").status_code == 409
    assert volcano.call("GET", "bus.volcano.sh/v1alpha1/commands").json()["items"] == []


def test_message_of_a_command_is_kept_as_one_line(volcano: VolcanoYard) -> None:
    made = start(volcano)
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c"},
        "action": "AbortJob",
        "message": "for\x00 the\nnight",
        "target": {"kind": "Job", "name": "train"},
    }
    volcano.ok("POST", "bus.volcano.sh/v1alpha1/namespaces/default/commands", body)
    assert volcano.get(made)["status"]["state"]["message"] == "for  the night"


def test_queue_is_closed_and_opened_by_commands(volcano: VolcanoYard) -> None:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    lab = volcano.apply(head | {"metadata": {"name": "lab"}, "spec": {}})
    team = volcano.apply(head | {"metadata": {"name": "team"}, "spec": {"parent": "lab"}})
    made = volcano.apply(job(queue="team"))
    assert volcano.command(team, "CloseQueue").status_code == 201
    assert volcano.get(team)["status"]["state"] == "Closing"
    assert (
        volcano.call("POST", volcano.path(made), job(name="late", queue="team")).status_code == 422
    )
    volcano.ok("DELETE", f"{volcano.path(made)}/train")
    volcano.turn()
    assert volcano.get(team)["status"]["state"] == "Closed"
    assert volcano.command(lab, "CloseQueue").status_code == 201
    assert volcano.command(team, "OpenQueue").status_code == 409
    assert volcano.command(lab, "OpenQueue").status_code == 201
    assert volcano.command(team, "OpenQueue").status_code == 201
    assert volcano.get(team)["status"]["state"] == "Open"
