"""Text of other systems to inventory records."""
