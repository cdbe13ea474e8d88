"""Rules that were worth repeating in review, as tests."""
