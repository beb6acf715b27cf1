"""Write docs/settings.md from the services' settings: python -m tools.settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gateway.settings import GatewaySettings
from talker.settings import TalkerSettings
from ttscommon.process.settings import (
    NESTED,
    PREFIX,
    BusSettings,
    ServiceSettings,
    StageSettings,
    TracingSettings,
)
from vocoder.settings import VocoderSettings

PATH: Final = Path(__file__).resolve().parents[1] / "docs/settings.md"
_INTRODUCTION: Final = (
    "# Settings\n\nEnvironment variables, read once when a service starts. "
    f"A name that begins with `{PREFIX}` and is none of these stops the service with a line that "
    "says which; so does a value out of its bounds. This page is written from the code: "
    "`python -m tools.settings`. Times and bounds that no variable sets are fields of the code's "
    "classes whose names end in `Tuning`, each with its reason below it.\n"
)


@dataclass(frozen=True)
class Section:
    """Settings of one kind: those of `model` that `base` does not have, under a prefix."""

    title: str
    about: str
    model: type[BaseModel]
    base: type[BaseModel] = BaseModel
    prefix: str = PREFIX

    def fields(self) -> Iterator[tuple[str, FieldInfo]]:
        """The fields by the variables that set them; groups have sections of their own."""
        inherited = self.base.model_fields
        for name, field in self.model.model_fields.items():
            changed = name not in inherited or inherited[name].default != field.default
            if changed and not isinstance(field.default, BaseModel):
                yield f"{self.prefix}{name.upper()}", field


SECTIONS: Final = (
    Section("Every service", "Gateways, talkers and vocoders.", ServiceSettings),
    Section("Broker", "Where it is, and who a service is there. `antiphon bus` reads them too.",
            BusSettings, prefix=f"{PREFIX}BUS{NESTED}"),
    Section("Tracing", "OpenTelemetry.", TracingSettings, prefix=f"{PREFIX}TRACING{NESTED}"),
    Section("Gateway", "What clients may ask for, and how long anything may take.",
            GatewaySettings, ServiceSettings),
    Section("Talker and vocoder", "What a stage serves.", StageSettings, ServiceSettings),
    Section("Talker", "Besides those of both stages.", TalkerSettings, StageSettings),
    Section("Vocoder", "Besides those of both stages; a default that differs is named again.",
            VocoderSettings, StageSettings),
)  # fmt: skip


def page() -> str:
    """The whole document."""
    return "\n".join([_INTRODUCTION, *(_table(section) for section in SECTIONS)])


def _table(section: Section) -> str:
    rows = [_row(name, field) for name, field in section.fields()]
    head = f"## {section.title}\n\n{section.about}\n\n| variable | takes | default | |"
    return "\n".join([head, "| --- | --- | --- | --- |", *rows, ""])


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{name}`", _takes(field), _default(field.default), _prose(field))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _prose(field: FieldInfo) -> str:
    return " ".join(inspect.cleandoc(field.description or "").split())


def _takes(field: FieldInfo) -> str:
    """The type in a reader's words, and its bounds."""
    kind = _kind(field.annotation)
    bounds = [words for item in field.metadata if (words := _bound(item))]
    return f"{kind} {' '.join(bounds)}" if bounds else kind


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is tuple:
        return "list"
    options = [part for part in get_args(annotation) if part is not type(None)]
    if options and isinstance(options[0], str):
        return " or ".join(f"`{option}`" for option in options)
    kind = options[0] if options else annotation
    return _KINDS.get(kind, "text")


_KINDS: Final[dict[Any, str]] = {
    bool: "`true` or `false`",
    int: "integer",
    float: "number",
    Path: "path",
    str: "text",
}
_WORDS: Final = (
    ("ge", "from {:,}"),
    ("gt", "over {:,}"),
    ("le", "up to {:,}"),
    ("lt", "under {:,}"),
)


def _bound(item: Any) -> str:
    for name, words in _WORDS:
        limit = getattr(item, name, None)
        if limit is not None:
            return words.format(int(limit) if limit == int(limit) else limit)
    return ""


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def main() -> None:
    """Write the page."""
    PATH.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
