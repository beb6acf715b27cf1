"""The device side: what computes a launch, on the CPU or on a GPU."""
