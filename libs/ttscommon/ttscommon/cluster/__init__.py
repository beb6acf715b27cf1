"""Workers as a cluster: claims, leases, handover, and the jobs of the dead."""
