"""GLM-4-Voice's sound: a flow that sees both ways, in blocks that grow, and HiFT at 22.05 kHz."""
