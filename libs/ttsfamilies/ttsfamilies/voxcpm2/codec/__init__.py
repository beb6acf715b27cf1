"""VoxCPM2's VAE: patches of floats to sound at 48 kHz."""
