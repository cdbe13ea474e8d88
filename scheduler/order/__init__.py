"""Which gang goes next, and what queues let it have."""
