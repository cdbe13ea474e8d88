"""Where a gang goes, or why it does not fit."""
