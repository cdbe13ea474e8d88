"""Who yields to a gang that comes first."""
