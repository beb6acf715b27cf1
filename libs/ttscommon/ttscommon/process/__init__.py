"""What every service process has: settings, a life, probes, metrics, logs and traces."""
