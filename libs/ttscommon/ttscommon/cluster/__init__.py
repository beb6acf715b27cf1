"""What workers owe each other: claims, leases, handover, and the jobs of the dead."""
