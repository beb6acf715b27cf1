"""The planner: a fleet in virtual time, with the project's own engines and admission inside it."""
