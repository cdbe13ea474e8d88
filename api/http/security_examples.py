"""Examples of who callers are and what they did, for the API's description."""

LOGIN = {"token": "pyd_Xq0f3kTe_" + "0" * 38}

WHO = {
    "asked": True,
    "name": "llm-team",
    "role": "submitter",
    "namespaces": ["research"],
    "nodes": None,
}

AUDIT = {
    "items": [
        {
            "id": 412,
            "at": "2026-12-01T10:00:00.000Z",
            "actor": "llm-team",
            "role": "submitter",
            "method": "POST",
            "path": "/v1/jobs?wait=bound",
            "status": 201,
            "request_id": "b2c1f09d53a7e611",
            "address": "10.0.3.7",
        },
        {
            "id": 411,
            "at": "2026-12-01T09:58:31.120Z",
            "actor": "llm-team",
            "role": "submitter",
            "method": "POST",
            "path": "/v1/nodes/n001/drain",
            "status": 403,
            "request_id": "5fd0a3a1c5b0e942",
            "address": "10.0.3.7",
        },
    ],
    "revision": 8123,
    "next": None,
}
