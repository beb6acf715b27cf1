"""Zonos v0.1 (transformer): phones and conditions to nine staggered codes a step, with guidance."""
