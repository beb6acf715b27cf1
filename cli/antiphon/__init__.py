"""The antiphon command: run the stack on this machine, speak, list voices, measure."""
