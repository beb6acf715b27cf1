"""API keys: who calls, with what weight, and what a caller may use; their file is watched."""

from __future__ import annotations

import asyncio
import hashlib
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import structlog
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from gateway.errors import InvalidApiKey
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import UnknownAdapter, UnknownModel, UnknownVoice
from ttscommon.wire.parameters import ADAPTER

ANONYMOUS: Final = ""
_MINUTE_S: Final = 60.0


_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class KeysError(Exception):
    """The keys file cannot be used; the text says why."""


@dataclass(frozen=True)
class TextLimits:
    """How a text may come that is sent piece by piece.

    It may pause for `pause_s`, and take `most_s` in all. Once a pause's time has passed since its
    beginning it must have come at `least_per_s` characters a second, on average.
    """

    pause_s: float
    most_s: float
    least_per_s: float

    def ends_s(self, characters: int) -> float:
        """Seconds after its beginning at which so many characters are too few."""
        if not self.least_per_s:
            return math.inf
        return max(self.pause_s, characters / self.least_per_s)


class Tenant(BaseModel):
    """One caller's rights. A limit that is not given does not exist; those of a text that is not
    given is the gateway's.

    `previous_sha256`: of the key that the present one replaces, which works too. `voices` are
    presets; voices that the tenant made are its own. `adapters` are the deployment's, and so many
    `adapter_uploads` of its own the tenant may keep. `jobs`: how many it may keep.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: _Sha256 = "0" * 64
    previous_sha256: _Sha256 | None = None
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    streams: Annotated[int, Field(ge=1)] | None = None
    sockets: Annotated[int, Field(ge=1)] | None = None
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    characters_per_minute: Annotated[float, Field(gt=0)] | None = None
    text_seconds: Annotated[float, Field(gt=0)] | None = None
    least_characters_per_minute: Annotated[float, Field(ge=0)] | None = None
    models: frozenset[str] | None = None
    voices: frozenset[str] | None = None
    adapters: frozenset[str] | None = None
    adapter_uploads: Annotated[int, Field(ge=0)] | None = None
    jobs: Annotated[int, Field(ge=0)] | None = None
    expires: AwareDatetime | None = None

    def text_limits(self, settings: GatewaySettings) -> TextLimits:
        """This caller's, or else those of `settings`."""
        most_s, least = self.text_seconds, self.least_characters_per_minute
        return TextLimits(
            settings.input_timeout_s,
            settings.max_text_s if most_s is None else most_s,
            (settings.least_characters_per_minute if least is None else least) / _MINUTE_S,
        )

    @property
    def hashes(self) -> list[str]:
        """Of every key that is this tenant's."""
        return [one for one in (self.sha256, self.previous_sha256) if one is not None]

    @property
    def limited(self) -> bool:
        """Whether there is any limit that all gateways have to keep together."""
        limits = (self.streams, self.requests_per_minute, self.characters_per_minute)
        return any(limit is not None for limit in limits)


class _KeysFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")], Tenant]


@dataclass
class KeyRing:
    """The tenants by name. Without a file every caller is the same anonymous tenant.

    The file (docs/operations.md) holds hashes, never keys, so that reading it gives no key away.
    `take` replaces them while requests run; see KeysWatch.
    """

    tenants: Mapping[str, Tenant] = field(default_factory=lambda: {ANONYMOUS: Tenant()})
    required: bool = False

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """Raises KeysError."""
        if path is None:
            return cls()
        try:
            ring = cls.parse(path.read_text("utf-8"))
        except (OSError, KeysError) as error:
            raise KeysError(f"{path}: {error}") from error
        if not ring.tenants:
            raise KeysError(f"{path}: there is no key in it")
        return ring

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises KeysError. A table `[keys]` without any means that no caller may speak."""
        try:
            parsed = _KeysFile.model_validate(tomllib.loads(text))
        except (ValueError, ValidationError) as error:
            raise KeysError(str(error)) from error
        hashes = [one for tenant in parsed.keys.values() for one in tenant.hashes]
        if len(set(hashes)) != len(hashes):
            raise KeysError("every tenant needs a sha256 of its own")
        return cls(parsed.keys, required=True)

    def most_sockets(self, tenant: str, otherwise: int) -> int | None:
        """How many the tenant may hold open here; None: no limit, as where no keys are needed."""
        return self.limit("sockets", tenant, otherwise) if self.required else None

    def limit(
        self, name: Literal["sockets", "adapter_uploads", "jobs"], tenant: str, otherwise: int
    ) -> int:
        """That a tenant's key sets, or else the deployment's."""
        given: int | None = getattr(self.tenants.get(tenant), name, None)
        return otherwise if given is None else given

    def require(self, name: str, who: str) -> None:
        """There is a tenant of this name, as `who` says; raises KeysError."""
        if name not in self.tenants:
            raise KeysError(f"{who}: there is no key '{name}' in the keys file")

    def take(self, other: KeyRing) -> None:
        """From now on, these are the tenants."""
        self.tenants, self.required = other.tenants, other.required

    def tenant(self, key: str | None) -> str:
        """The name of the tenant whose key this is; raises InvalidApiKey."""
        if not self.required:
            return ANONYMOUS
        if key is None or not key.strip():
            raise InvalidApiKey("an API key is needed: 'Authorization: Bearer <key>'")
        # Hashes are compared, not keys: how long that takes says nothing about a key.
        found = hashlib.sha256(key.strip().encode()).hexdigest()
        for name, tenant in self.tenants.items():
            if found in tenant.hashes:
                self.check(name)
                return name
        raise _incorrect()

    def check(self, name: str) -> None:
        """Raises InvalidApiKey for a tenant whose key was revoked or has expired meanwhile."""
        tenant = self.tenants.get(name)
        if tenant is None:
            raise _incorrect()
        if tenant.expires is not None and tenant.expires <= datetime.now(UTC):
            raise InvalidApiKey("this API key has expired")

    def permit(self, name: str, model: str, voice: str | None) -> None:
        """Raises UnknownModel or UnknownVoice for what a tenant's key is not for.

        `voice` is a preset of the model, or None for a recording. A caller that has brought no key
        yet is not a tenant: admission refuses it.
        """
        tenant = self.tenants.get(name, Tenant())
        if tenant.models is not None and model not in tenant.models:
            raise UnknownModel(f"this API key may not use the model '{model}'", param="model")
        if voice is not None and tenant.voices is not None and voice not in tenant.voices:
            raise UnknownVoice(f"this API key may not use the voice '{voice}'", param="voice")

    def permit_adapter(self, name: str, adapter: str) -> None:
        """Raises UnknownAdapter for one of the deployment's that a tenant's key is not for."""
        tenant = self.tenants.get(name, Tenant())
        if tenant.adapters is not None and adapter not in tenant.adapters:
            raise UnknownAdapter(f"this API key may not use the adapter '{adapter}'", param=ADAPTER)


def _incorrect() -> InvalidApiKey:
    # OpenAI's words: LiteLLM tells a wrong key from other bad requests by them.
    return InvalidApiKey("Incorrect API key provided")


_EVERY_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class KeysWatch:
    """Reads the file of a key ring, and takes what is in it when that has changed.

    The bytes are compared, not times: a Secret's volume replaces links, and editors replace files.
    """

    def __init__(self, path: Path | None, keys: KeyRing, changed: Callable[[], None]) -> None:
        self._path, self._keys, self._changed = path, keys, changed
        self._seen: bytes | None = None

    async def run(self) -> None:
        """Until it is cancelled; without a file there is nothing to do."""
        while self._path is not None:
            await self.look(self._path)
            await asyncio.sleep(_EVERY_S)

    async def look(self, path: Path) -> None:
        """Take what is new. What cannot be used leaves the keys as they are."""
        try:
            found = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            log_.warning("keys.unreadable", error=str(error))
            return
        if found == self._seen:
            return
        self._seen = found
        try:
            fresh = await asyncio.to_thread(_parsed, found)
        except KeysError as error:
            log_.error("keys.rejected", error=str(error))
            return
        if fresh.tenants != self._keys.tenants:
            log_.info("keys.changed", **_difference(self._keys, fresh))
            self._keys.take(fresh)
            self._changed()


def _parsed(data: bytes) -> KeyRing:
    try:
        return KeyRing.parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise KeysError("it is not UTF-8") from error


def _difference(old: KeyRing, new: KeyRing) -> dict[str, list[str]]:
    both = old.tenants.keys() & new.tenants.keys()
    return {
        "added": sorted(new.tenants.keys() - both),
        "revoked": sorted(old.tenants.keys() - both),
        "changed": sorted(name for name in both if old.tenants[name] != new.tenants[name]),
    }
