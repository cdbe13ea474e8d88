"""The real cycle under a virtual clock and a seed, and what others would decide beside it."""
