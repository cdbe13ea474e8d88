"""What is free: per-node masks and counts per domain, with edits that roll back."""
