"""Why a gang does not fit, and what would make it fit; what would happen if."""
