"""SNAC (Siuzdak et al., 2024), 24 kHz: three levels of codes at 1, 2 and 4 times the frame rate."""
