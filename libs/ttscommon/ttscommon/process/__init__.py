"""Parts of every service process: settings, a life, probes, metrics, logs and traces."""
