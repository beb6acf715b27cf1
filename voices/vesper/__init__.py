"""The voice vesper; its files lie beside this one."""
