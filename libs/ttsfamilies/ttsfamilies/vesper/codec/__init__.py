"""The vesper family's codec."""
