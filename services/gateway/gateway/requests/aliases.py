"""Names of other services and what they mean here: `tts-1` is a model, `alloy` a voice."""

from __future__ import annotations

import re
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ttscommon.wire.replicas import Voice

# Gone: for one release their names mean what took their place. Remove them, and what uses them, in
# 0.3.
RETIRED_MODELS: Final = {"cantor": "vesper"}
RETIRED_VOICES: Final = {"slt": "vesper", "rms": "vesper-low", "awb": "vesper-calm"}
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
    ("speaches-ai/kokoro*", "kokoro"),
    ("rhasspy/piper*", "piper"),
    ("speaches-ai/piper*", "piper"),
    ("kyutai/pocket-tts*", "pocket_tts"),
    ("kyutai/tts-1.6b*", "kyutai_tts"),
    ("openbmb/voxcpm2*", "voxcpm2"),
)
# What clients of Kokoro-FastAPI and Speaches ask for where no such checkpoint is served.
_PEERS: Final = ("kokoro", "hexgrad/kokoro*", "speaches-ai/*")
# Kokoro's voices, whose letters say their language and who they sound like, and blends of them.
_KOKORO: Final = re.compile(r"[0-9.*\s]*(?P<language>[abefhijpz])(?P<gender>[fm])_[a-z]+")
KOKORO_LANGUAGES: Final = MappingProxyType(
    dict(zip("abefhijpz", "en-US en-GB es fr hi it ja pt-BR zh".split(), strict=True))  # noqa: SIM905
)
_GENDERS: Final = MappingProxyType({"f": "female", "m": "male"})


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
    file (docs/protocol.md) adds to that and overrides it.
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
        peer = any(fnmatchcase(name.lower(), pattern) for pattern in _PEERS)
        return found or (DEFAULT if lenient or peer else name)

    def voice(
        self,
        name: str,
        voices: Sequence[Voice],
        *,
        lenient: bool = False,
        language: str | None = None,
    ) -> str:
        """The id of the voice that `name` means; itself where nothing stands for it.

        `lenient`: a name that means nothing here means one of the voices of the `language`, always
        the same: people tell two apart.
        """
        if name == DEFAULT and lenient:
            return _speaking(language, voices)
        if name == DEFAULT or any(name == voice.id for voice in voices):
            return name
        if (found := _match(name, self.voices)) is not None:
            return found
        if name in OPENAI_VOICES and voices:
            return voices[OPENAI_VOICES.index(name) % len(voices)].id
        if kokoro := _kokoro(name, voices):
            return kokoro
        return _spread(name, language, voices) if lenient else name


def _kokoro(name: str, voices: Sequence[Voice]) -> str | None:
    """What a voice or a blend of Kokoro's means to a model that has none of them."""
    found = _KOKORO.match(name)
    if found is None or any(_KOKORO.match(voice.id) for voice in voices):
        return None
    alike = [voice for voice in voices if voice.gender == _GENDERS[found["gender"]]]
    tag = KOKORO_LANGUAGES[found["language"]]
    for some in (alike, voices):
        if (voice := _spread(name, tag, some)) != DEFAULT:
            return voice
    return DEFAULT


def _spread(name: str, language: str | None, voices: Sequence[Voice]) -> str:
    """One of the voices that speak a language, else that of the first; the default without any."""
    tag = language or (voices[0].native if voices else "")
    speaking = [voice.id for voice in voices if voice.speaks(tag)]
    return speaking[zlib.crc32(name.encode()) % len(speaking)] if speaking else DEFAULT


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


def retired_warning(asked: str, spoken: str) -> str:
    """A Warning header's value (RFC 7234) for a voice that was asked for; "" if it is not gone."""
    if asked == spoken or asked not in RETIRED_VOICES:
        return ""
    return f'299 - "the voice {asked} is gone: {spoken} speaks, until the next release"'
