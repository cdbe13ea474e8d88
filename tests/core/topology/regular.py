"""What holds for every topology, whatever it was built of."""

from scheduler.topology.tree import Level, Topology


def check_regular(topology: Topology) -> None:
    """Every range, parent and place agrees with all others."""
    check_indices(topology)
    for depth, level in enumerate(topology.levels):
        check_ranges(topology, depth, level)
        check_children(topology, depth, level)
    check_names(topology)


def check_indices(topology: Topology) -> None:
    names = [node.name for node in topology.nodes]
    assert topology.level_index == {level.name: d for d, level in enumerate(topology.levels)}
    assert topology.node_index == {name: index for index, name in enumerate(names)}
    assert list(topology.levels[-1].names) == names
    assert [node_type.name for node_type in topology.types] == [n.type for n in topology.nodes]


def check_ranges(topology: Topology, depth: int, level: Level) -> None:
    """The domains of a level cut all nodes into ranges without gap or overlap."""
    count = len(level.names)
    columns = (level.parent, level.node_lo, level.node_hi, level.child_lo, level.child_hi)
    assert {len(column) for column in columns} == {count}
    assert list(level.node_lo) == [0, *level.node_hi[:-1]][:count]
    assert all(low < high for low, high in zip(level.node_lo, level.node_hi, strict=True))
    assert level.node_hi[-1:] == ((topology.node_count,) if count else ())
    place = [
        domain
        for domain, (low, high) in enumerate(zip(level.node_lo, level.node_hi, strict=True))
        for _ in range(low, high)
    ]
    assert list(topology.place[depth]) == place


def check_children(topology: Topology, depth: int, level: Level) -> None:
    """Children are the domains of the level below whose nodes are within, and name this one."""
    if depth == 0:
        assert set(level.parent) <= {0}
    if depth == len(topology.levels) - 1:
        assert list(level.child_lo) == list(level.node_lo)
        assert list(level.child_hi) == list(level.node_hi)
        return
    below = topology.levels[depth + 1]
    for domain, (low, high) in enumerate(zip(level.child_lo, level.child_hi, strict=True)):
        assert low < high
        assert below.node_lo[low] == level.node_lo[domain]
        assert below.node_hi[high - 1] == level.node_hi[domain]
        assert set(below.parent[low:high]) == {domain}


def check_names(topology: Topology) -> None:
    """Names are unique in their level; a blank domain holds one child alone."""
    for level in topology.levels:
        named = [name for name in level.names if name]
        assert len(set(named)) == len(named)
        for domain, name in enumerate(level.names):
            if not name:
                assert level.is_blank(domain)
                assert level.child_hi[domain] - level.child_lo[domain] == 1
