"""The columns in which Volcano's jobs and their groups are listed: the same for both."""

from api.k8s.kinds import NAME, Column


def gang_columns(what: str) -> tuple[Column, ...]:
    """Columns of a `job` or a `group`."""
    least = "minAvailable" if what == "job" else "minMember"
    return (
        NAME,
        Column("Status", description=f"Phase of the {what}."),
        Column(least, "integer", description="Pods that have to run together."),
        Column("RUNNINGS", "integer", description="Pods that run."),
        Column("Age", "date"),
        Column("Queue", description="The queue it waits in.", priority=1),
    )
