"""The parts of families: none of them is named here."""
