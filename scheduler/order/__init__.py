"""Which gang goes next."""
