"""Objects that nobody means: of any fields, or good ones of which a part is something else."""

import json

from hypothesis import strategies as st

from tests.api.k8s.reviews import job, queue, task

WORDS = st.sampled_from(
    ["", "a", "worker", "default", "root", "*", "PodFailed", "RestartJob", "1", "-1", "500m", "1e9",
     "hard", "((", "x" * 300, "\x00", "\ud83d\ude00", "2Gi", "10m", "nvidia.com/gpu", "@hourly"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | WORDS | st.floats(
    allow_nan=False, allow_infinity=False
)  # fmt: skip
FIELDS = st.sampled_from(
    ["metadata", "spec", "status", "name", "annotations", "tasks", "replicas", "minAvailable",
     "template", "containers", "resources", "requests", "limits", "cpu", "policies", "event",
     "events", "action", "timeout", "exitCode", "partitionPolicy", "totalPartitions",
     "partitionSize", "networkTopology", "highestTierName", "highestTierAllowed", "plugins", "mpi",
     "dependsOn", "queue", "parent", "capability", "deserved", "guarantee", "resource", "members",
     "selector", "exactMatch", "regexMatch", "pattern", "schedule", "timeZone", "jobTemplate",
     "flows", "targets", "volumes", "mountPath", "subGroupPolicy", "affinity", "tolerations",
     "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights", "volcano.sh/jdb-min-available"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(FIELDS, TREES, max_size=5)

GOOD = (job(task()), queue(), {"spec": {"members": [{"type": "Node", "selector": {}}]}})


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """A good object of which one or two places are something else."""
    found = json.loads(json.dumps(draw(st.sampled_from(GOOD))))
    for _ in range(draw(st.integers(1, 2))):
        at = found
        for _ in range(draw(st.integers(0, 6))):
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(at[key], dict | list):
                break
            at = at[key]
        if isinstance(at, dict):
            at[draw(FIELDS)] = draw(TREES)
        elif at:
            at[draw(st.integers(0, len(at) - 1))] = draw(TREES)
    return found
