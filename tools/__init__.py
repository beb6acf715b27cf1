"""Programs that the Makefile and the Dockerfile call."""
