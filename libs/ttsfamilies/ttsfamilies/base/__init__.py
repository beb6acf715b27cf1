"""What families are made of. Nothing here names one."""
