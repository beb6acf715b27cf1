"""One module a wire protocol. Each works with a GatewayContext and knows nothing of the bus."""
