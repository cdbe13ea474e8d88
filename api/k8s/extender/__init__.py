"""Scheduler extenders: questions of foreign schedulers, answered by the placement engine."""
