"""Synthetic checkpoints: published names, small or published shapes, weights drawn from a seed."""
