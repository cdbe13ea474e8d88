"""The Kubernetes-style API: what `kubectl` speaks, over the same services as `/v1`."""
