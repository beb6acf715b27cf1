"""Piper's generator: HiFi-GAN, over frames that are the latents of a VITS network."""
