"""What a cycle has decided so far, and what facts and evictions do to it."""
