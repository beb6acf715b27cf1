"""Low-rank adapters: the published format, and those that clients keep on the bus. No torch."""
