"""VoxCPM2: text to patches of floats, by two language models and a flow that a step solves."""
