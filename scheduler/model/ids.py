"""Names of things, each with its own type so that they cannot be mixed up."""

from typing import NewType

JobId = NewType("JobId", str)
"""The `uid` of a job; unique for ever, unlike its name."""

PodId = NewType("PodId", str)
"""The `uid` of a pod: one member of one job; it keeps it through its attempts."""

NodeId = NewType("NodeId", str)
"""The name of a node."""

ClaimId = NewType("ClaimId", str)
"""The `uid` of a claim."""
