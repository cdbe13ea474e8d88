"""Other schedulers' ways to choose places and who goes first, written from what they publish."""
