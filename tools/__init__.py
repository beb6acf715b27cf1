"""What the Makefile and the Dockerfile call."""
