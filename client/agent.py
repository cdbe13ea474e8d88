"""The `podyard-agent` command: one for each node, once it exists."""

import sys

USAGE = 2


def main() -> None:
    """Say that there is no agent yet; ends with exit code 2."""
    sys.stderr.write(
        "podyard-agent is not part of this version yet. Without agents, whoever runs a pod "
        "reports what became of it:\n"
        "  POST /v1/namespaces/NAMESPACE/pods/POD/status "
        '{"attempt": 1, "state": "running"}\n'
    )
    raise SystemExit(USAGE)


if __name__ == "__main__":
    main()
