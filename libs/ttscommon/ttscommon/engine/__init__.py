"""What both engines stand on: the runtime, slots, devices, kernels and neural blocks."""
