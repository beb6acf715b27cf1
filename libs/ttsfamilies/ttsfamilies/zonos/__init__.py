"""Zonos v0.1 (transformer): phones and conditions to nine delayed codes a step, with guidance."""
