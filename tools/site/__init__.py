"""The documentation site: what it is made of, and how. `make docs` builds it."""
