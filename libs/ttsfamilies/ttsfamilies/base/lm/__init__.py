"""Building blocks of several families."""
