"""Claims in time: who waits for what until when, and what may start in between."""
