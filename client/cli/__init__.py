"""`yardctl`, the command-line client: one module for each verb."""
