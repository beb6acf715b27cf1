"""Names of other services and what they mean here: `tts-1` is a model, `alloy` a voice."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
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
# What the services that these protocols are of publish.
_MODELS: Final = MappingProxyType(
    dict.fromkeys(
        (
            *("tts-1", "tts-1-*", "gpt-4o-mini-tts", "gpt-4o-mini-tts-*"),
            *("eleven_*", "sonic", "sonic-*", "aura-*", "flux-*"),
        ),
        DEFAULT,
    )
)
# Names of published checkpoints, in any case -> the family of the model that they mean here.
_PUBLISHED: Final = (
    ("qwen/qwen3-tts*", "qwen3_tts"),
    ("canopylabs/orpheus*", "orpheus"),
    ("sesame/csm*", "csm"),
    ("hexgrad/kokoro*", "kokoro"),
    ("kokoro", "kokoro"),
    ("rhasspy/piper*", "piper"),
    ("kyutai/pocket-tts*", "pocket_tts"),
    ("kyutai/tts-1.6b*", "kyutai_tts"),
    ("openbmb/voxcpm2*", "voxcpm2"),
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

    def model(self, name: str, known: Mapping[str, str], *, lenient: bool = False) -> str:
        """The model that `name` means; itself where nothing stands for it.

        `known`: the served models and their families. `lenient`: a name that means nothing here
        means the default.
        """
        if name in known or name == DEFAULT:
            return name
        found = _match(name, self.models) or _published(name, known)
        return found or (DEFAULT if lenient else name)

    def voice(
        self,
        name: str,
        voices: Sequence[Voice],
        *,
        lenient: bool = False,
        language: str | None = None,
    ) -> str:
        """The id of the voice that `name` means; itself where nothing stands for it.

        `lenient`: a name that means nothing here means the first voice of the `language`.
        """
        if name == DEFAULT and lenient:
            return _speaking(language, voices)
        if name == DEFAULT or any(name == voice.id for voice in voices):
            return name
        if (found := _match(name, self.voices)) is not None:
            return found
        if name in OPENAI_VOICES and voices:
            return voices[OPENAI_VOICES.index(name) % len(voices)].id
        return _speaking(language, voices) if lenient else name


def _speaking(language: str | None, voices: Sequence[Voice]) -> str:
    """The first voice of a language; the default where there is none."""
    if language:
        return next((voice.id for voice in voices if voice.speaks(language)), DEFAULT)
    return DEFAULT


def _published(name: str, known: Mapping[str, str]) -> str | None:
    """The served model of the family that a published checkpoint is of."""
    for pattern, family in _PUBLISHED:
        if fnmatchcase(name.lower(), pattern):
            return next((model for model, its in known.items() if its == family), None)
    return None


def _match(name: str, table: Mapping[str, str]) -> str | None:
    exact = table.get(name)
    if exact is not None:
        return exact
    return next((to for pattern, to in table.items() if fnmatchcase(name, pattern)), None)
