"""What hardware faults mean: for nodes, for gangs that lost members, and for what to keep spare."""
