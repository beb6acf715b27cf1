"""What engines share on a device: work in order, graphs, and copies that run beside the host."""
