"""The planner: a fleet in virtual time, with the project's own engines and admission inside it."""


class PlanError(Exception):
    """The planner cannot use what it was given; the message says what and where."""
