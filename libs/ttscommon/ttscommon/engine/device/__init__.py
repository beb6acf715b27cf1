"""Device work that engines share: work in order, graphs, copies that run beside the host."""
