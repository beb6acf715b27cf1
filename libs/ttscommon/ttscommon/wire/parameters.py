"""Things of a model that a request may name: its own parameters, its adapters, blends of voices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from ttscommon.wire.errors import BadRequest, UnknownVoice

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


# The field of a request.
ADAPTER: Final = "adapter"

AdapterName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Adapter(msgspec.Struct, frozen=True):
    """One that a talker has in its folder. digest: SHA-256 of its content. rank: its highest."""

    name: str
    digest: str
    rank: int = 0


class AdapterRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one that a request is spoken with. Every talker of the request uses the same content.

    digest: SHA-256 of it. stored: its name in the object store; empty for one of talkers' folders.
    """

    name: AdapterName
    digest: Digest
    stored: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{16}-[0-9a-f]{64}-[0-9a-f]{16})?$")] = (
        ""
    )


MOST_PARTS: Final = 8

Blend: TypeAlias = tuple[tuple[str, float], ...]
"""Voices and their shares, which sum to 1."""

_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_NUMBER: Final = r"(?P<weight>[0-9]{1,6}(?:\.[0-9]{1,6})?)"
_PARTS: Final = tuple(
    re.compile(form)
    for form in (
        _NAME,
        rf"{_NAME}\s*\*\s*{_NUMBER}",
        rf"{_NUMBER}\s*\*\s*{_NAME}",
        rf"{_NAME}\s*\(\s*{_NUMBER}\s*\)",
    )
)


def parse(voice: str, known: Collection[str]) -> Blend:
    """The shares of `known` voices; one that is named twice has the sum of both.

    Raises UnknownVoice for a voice that is not known and for what is no blend.
    """
    parts = re.split(r"[+,]", voice)
    if len(parts) > MOST_PARTS:
        raise UnknownVoice(f"a blend has at most {MOST_PARTS} voices", param="voice")
    weights: dict[str, float] = {}
    for part in parts:
        name, weight = _part(part.strip(), voice)
        if name not in known:
            raise UnknownVoice(f"there is no voice '{name}'; try {', '.join(known)}", param="voice")
        weights[name] = weights.get(name, 0.0) + weight
    if not (total := sum(weights.values())):
        raise UnknownVoice(f"the weights of '{voice}' sum to 0", param="voice")
    return tuple((name, weight / total) for name, weight in weights.items())


def _part(part: str, voice: str) -> tuple[str, float]:
    for form in _PARTS:
        if (found := form.fullmatch(part)) is not None:
            return found["name"], float(found.groupdict().get("weight", 1.0))
    raise UnknownVoice(
        f"'{voice}' is neither a voice nor a blend such as 'af_heart*0.6+af_sky*0.4'", param="voice"
    )
