"""Names of other services and what they mean here: `tts-1` is a model, `alloy` a voice."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ttscommon.wire.replicas import Voice

# What a client calls the deployment's own choice of model or voice.
DEFAULT: Final = "default"

OPENAI_VOICES: Final = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
)  # fmt: skip
_MODELS: Final = MappingProxyType(
    {"tts-1": DEFAULT, "tts-1-*": DEFAULT, "gpt-4o-mini-tts": DEFAULT, "gpt-4o-mini-tts-*": DEFAULT}
)


class AliasesError(Exception):
    """The aliases file cannot be used; the text says why."""


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    models: dict[str, str] = {}
    voices: dict[str, str] = {}


@dataclass(frozen=True)
class Aliases:
    """Names by what stands for them; a pattern may hold `*`. The deployment's own names come first.

    OpenAI's models mean the default model, and its voices are spread over those of the model. A
    file adds to that and overrides it:

        [models]
        "eleven_*" = "vesper"

        [voices]
        alloy = "vesper-calm"
    """

    models: Mapping[str, str] = field(default_factory=lambda: _MODELS)
    voices: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """Raises AliasesError."""
        if path is None:
            return cls()
        try:
            parsed = _File.model_validate(tomllib.loads(path.read_text("utf-8")))
        except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
            raise AliasesError(f"{path}: {error}") from error
        return cls({**parsed.models, **_MODELS, **parsed.models}, parsed.voices)

    def model(self, name: str, known: Collection[str], *, lenient: bool = False) -> str:
        """The model that `name` means; itself where nothing stands for it.

        `lenient`: a name that means nothing here means the default.
        """
        if name in known or name == DEFAULT:
            return name
        return _match(name, self.models) or (DEFAULT if lenient else name)

    def voice(self, name: str, voices: Sequence[Voice], *, lenient: bool = False) -> str:
        """The id of the voice that `name` means; itself where nothing stands for it."""
        if name == DEFAULT or any(name == voice.id for voice in voices):
            return name
        if (found := _match(name, self.voices)) is not None:
            return found
        if name in OPENAI_VOICES and voices:
            return voices[OPENAI_VOICES.index(name) % len(voices)].id
        return DEFAULT if lenient else name


def _match(name: str, table: Mapping[str, str]) -> str | None:
    exact = table.get(name)
    if exact is not None:
        return exact
    return next((to for pattern, to in table.items() if fnmatchcase(name, pattern)), None)
