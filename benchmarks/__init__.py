"""What produces every speed and quality figure the project states."""
