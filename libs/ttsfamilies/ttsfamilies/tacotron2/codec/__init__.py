"""Tacotron 2's postnet and HiFi-GAN: mel frames to sound."""
