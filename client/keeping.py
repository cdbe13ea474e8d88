"""Calls about jobs that are there, about claims, and about maintenance windows."""

from typing import cast

from client.calls import Calls, Pages, job_path, json_body, path_of
from client.shapes import Body, Checkpoint, Claim, Delivery, Job, Reservation, Verb
from client.transport import Call


class Keeping(Calls):
    """Control of jobs, and what is kept for whom."""

    def control_job(self, namespace: str, name: str, verb: Verb) -> Job:
        """Ask something of a job; it is answered before the scheduler has acted.

        A requeue is not tried again once it was sent: by then the job may have started anew.
        """
        call = Call(
            "POST",
            job_path(namespace, name, verb),
            content=json_body({}),
            repeatable=verb != "requeue",
        )
        return cast(Job, self._object(call))

    def save_checkpoint(self, namespace: str, name: str, checkpoint: Body) -> Job:
        """Tell that a job has saved its state: `step`, `uri`, and more if known."""
        return cast(Job, self._send("POST", job_path(namespace, name, "checkpoints"), checkpoint))

    def checkpoints(self, namespace: str, name: str) -> Pages[Checkpoint]:
        """What a job has saved, the newest first."""
        return self._list(job_path(namespace, name, "checkpoints"), {})

    def deliveries(
        self, *, namespace: str | None = None, job: str | None = None, state: str | None = None
    ) -> Pages[Delivery]:
        """Messages to hooks, the newest first."""
        query = {"namespace": namespace, "job": job, "state": state}
        return self._list("/v1/hooks/deliveries", query)

    def delivery(self, id_: str) -> Delivery:
        return cast(Delivery, self._get(path_of("v1", "hooks", "deliveries", id_)))

    def retry_delivery(self, id_: str) -> Delivery:
        """Have a message sent again."""
        path = path_of("v1", "hooks", "deliveries", id_, "retry")
        return cast(Delivery, self._object(Call("POST", path, content=json_body({}))))

    def claims(
        self, *, namespace: str | None = None, job: str | None = None, node: str | None = None
    ) -> Pages[Claim]:
        """GPUs kept for gangs that are not there yet, and for people."""
        return self._list("/v1/claims", {"namespace": namespace, "job": job, "node": node})

    def reservations(self) -> Pages[Reservation]:
        """Maintenance windows that are not over."""
        return self._list("/v1/reservations", {})

    def reservation(self, name: str) -> Reservation:
        return cast(Reservation, self._get(path_of("v1", "reservations", name)))

    def create_reservation(self, reservation: Body) -> Reservation:
        """Keep nodes for people for a time."""
        call = Call("POST", "/v1/reservations", content=json_body(reservation))
        return cast(Reservation, self._object(call))

    def delete_reservation(self, name: str) -> Reservation:
        call = Call("DELETE", path_of("v1", "reservations", name))
        return cast(Reservation, self._object(call))
