"""The base of both engines: the runtime, slots, devices, kernels and neural blocks."""
