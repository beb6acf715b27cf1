"""A model family's own settings in `extra_params`, each with its schema.

The same schema is listed to clients, refuses a request at the gateway's door, and gives the
family's side its values, defaults included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from ttscommon.wire.errors import BadRequest

Kind: TypeAlias = Literal["number", "integer", "switch", "choice"]
Value: TypeAlias = bool | int | float | str

FIELD: Final = "extra_params"
MOST: Final = 16


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """One setting. least, most: of a number, both inclusive. choices: of a choice."""

    name: str
    kind: Kind
    default: Value
    about: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()

    def checked(self, given: Value) -> Value:
        """`given` as a value of this kind; raises BadRequest, which says what would do."""
        match self.kind:
            case "switch":
                fits = isinstance(given, bool)
            case "choice":
                fits = given in self.choices
            case "integer":
                fits = _is_integer(given) and self._within(given)
            case "number":
                fits = _is_number(given) and self._within(given)
        if not fits:
            raise BadRequest(f"{self.name} is {self.range}", param=f"{FIELD}.{self.name}")
        return float(given) if self.kind == "number" else given

    @property
    def range(self) -> str:
        """Its values in words."""
        if self.kind == "switch":
            return "true or false"
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        low, high = self.least, self.most
        named = "a whole number" if self.kind == "integer" else "a number"
        if low is not None and high is not None:
            return f"{named} from {low:g} to {high:g}"
        if low is not None:
            return f"{named} of {low:g} or more"
        return named if high is None else f"{named} of {high:g} or less"

    def _within(self, given: Value) -> bool:
        assert isinstance(given, int | float)
        return (self.least is None or given >= self.least) and (
            self.most is None or given <= self.most
        )


def checked(parameters: Iterable[Parameter], given: Mapping[str, Value]) -> dict[str, Value]:
    """The given values, each held against its schema; raises BadRequest."""
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise BadRequest(
                f"the model has no parameter {name!r}: {takes}", param=f"{FIELD}.{name}"
            )
    return {name: known[name].checked(value) for name, value in given.items()}


def completed(parameters: Iterable[Parameter], given: Mapping[str, Value]) -> dict[str, Value]:
    """A value for each parameter, its default where none is given; raises BadRequest."""
    parameters = tuple(parameters)
    return {p.name: p.default for p in parameters} | checked(parameters, given)


def _is_integer(given: Value) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _is_number(given: Value) -> bool:
    # NaN is within no bounds and infinity is no setting, whatever the bounds.
    finite = isinstance(given, float) and given - given == 0.0
    return _is_integer(given) or finite
