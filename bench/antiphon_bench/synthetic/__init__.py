"""Synthetic checkpoints: published names and shapes, weights drawn from a seed."""
