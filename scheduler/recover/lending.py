"""Who may use nodes that are kept spare until they are needed."""

from scheduler.model.job import JobSpec


def may_borrow(spec: JobSpec) -> bool:
    """Whether a gang can be made to leave at once: nobody has to be asked, nothing to be saved.

    The schema decides by the same two fields.
    """
    return spec.preemptible and spec.grace_s is None
