"""A cloned voice's recording, and what was derived of it once, for every replica.

Encoders differ by a bit between machines, and a successor would speak with another voice. So what
is derived of a recording is written by one talker, the first, and read by all, that one included.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import MalformedMessage, UnknownVoice
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, SpeechRequest, Tensor, Turn

# Of one value: a broker takes messages of a megabyte.
_MOST_BYTES: Final = 512 << 10

# Behind a revision: of what was said, and no voice's.
_SAID: Final = ".said"
Encode: TypeAlias = Callable[[bytes], Awaitable[Arrays]]

_decoder: Final = msgspec.msgpack.Decoder(dict[str, Tensor])


def recording_key(tenant: str, data: bytes) -> str:
    """The name of a tenant's recording. None is shared, so that each tenant can delete its own."""
    owner = hashlib.sha256(tenant.encode()).hexdigest()[:16]
    return f"{owner}-{hashlib.sha256(data).hexdigest()}"


class References:
    """Recordings and what was derived of them, on the bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def keep(self, key: str, data: bytes, *, kept: bool) -> None:
        """Store a recording, for ever or for a request; raises BusUnavailable."""
        bucket = _recordings(kept=kept)
        if kept or not await self._bus.objects.has(bucket, key):
            await self._bus.objects.put(bucket, key, data)

    async def forget(self, key: str, *, kept: bool = True) -> None:
        """Remove a stored recording and all that was derived of it; raises BusUnavailable."""
        await self._bus.objects.delete(_recordings(kept=kept), key)
        for derived in await self._bus.kv.all(_derived(kept=kept), f"{key}."):
            await self._bus.kv.delete(_derived(kept=kept), derived)

    async def derived(self, reference: Reference) -> Arrays:
        """What a talker derived; raises UnknownVoice where nothing is left of it."""
        found = await self._found(_derived(kept=reference.kept), reference.derived)
        if found is None:
            raise UnknownVoice("the voice was deleted", param="voice")
        return found

    async def derive_all(
        self,
        request: SpeechRequest,
        revision: str,
        encode: Encode,
        hear: Encode | None = None,
    ) -> tuple[SpeechRequest, Derived]:
        """`derive` for all recordings of a request, one after another; the request names them.

        hear: what encodes turns, where voices are encoded otherwise. Raises what `derive` does.
        """
        turned = (revision, encode) if hear is None else (f"{revision}{_SAID}", hear)
        reference, arrays = request.reference, None
        if reference is not None:
            reference, arrays = await self.derive(reference, revision, encode)
        turns: list[Turn] = []
        sounds: list[Arrays | None] = []
        for turn in request.turns:
            sound, derived = turn.sound, None
            if sound is not None:
                sound, derived = await self.derive(sound, *turned)
            turns.append(msgspec.structs.replace(turn, sound=sound))
            sounds.append(derived)
        resolved = msgspec.structs.replace(request, reference=reference, turns=tuple(turns))
        return resolved, Derived(arrays, tuple(sounds))

    async def derive(
        self, reference: Reference, revision: str, encode: Encode
    ) -> tuple[Reference, Arrays]:
        """What was derived of a recording for a model's `revision`, now if that was not done yet.

        Raises what `encode` does, UnknownVoice for a recording that is gone, BusUnavailable.
        """
        key = f"{reference.audio}.{revision}"
        bucket = _derived(kept=reference.kept)
        resolved = msgspec.structs.replace(reference, derived=key)
        if (found := await self._found(bucket, key)) is not None:
            return resolved, found
        recordings = _recordings(kept=reference.kept)
        data = await self._bus.objects.get(recordings, reference.audio)
        if data is None:
            raise UnknownVoice("the recording of this voice is gone", param="voice")
        arrays = await encode(data)
        await self._write(bucket, key, arrays)
        if reference.kept and not await self._bus.objects.has(recordings, reference.audio):
            await self._bus.kv.delete(bucket, key)  # it was deleted meanwhile
        return resolved, await self.derived(resolved)

    async def _write(self, bucket: str, key: str, arrays: Arrays) -> None:
        """All of it, unless another talker was first. What one value cannot hold lies beside it, in
        parts under names that no other talker's have.
        """
        tensors = {name: Tensor.of(array) for name, array in arrays.items()}
        data = msgspec.msgpack.encode(tensors)
        if len(data) > _MOST_BYTES:
            parts = _Parts(secrets.token_hex(8), -(-len(data) // _MOST_BYTES))
            for at, name in enumerate(parts.names(key)):
                part = data[at * _MOST_BYTES : (at + 1) * _MOST_BYTES]
                await self._bus.kv.put(bucket, name, part)
            data = msgspec.msgpack.encode(parts)
        await self._bus.kv.replace(bucket, key, data, 0)

    async def _found(self, bucket: str, key: str) -> Arrays | None:
        found = await self._bus.kv.get(bucket, key)
        if found is None or (parts := _parts(found)) is None:
            return None if found is None else _read(found)
        data = [await self._bus.kv.get(bucket, name) for name in parts.names(key)]
        return None if None in data else _read(b"".join(part or b"" for part in data))


class _Parts(msgspec.Struct, frozen=True, array_like=True):
    """In place of what was derived: where it is."""

    name: str
    count: int

    def names(self, key: str) -> list[str]:
        return [f"{key}.{self.name}.{at}" for at in range(self.count)]


def _recordings(*, kept: bool) -> str:
    return subjects.RECORDINGS if kept else subjects.PASSING_RECORDINGS


def _derived(*, kept: bool) -> str:
    return subjects.DERIVED if kept else subjects.PASSING_DERIVED


def _parts(data: bytes) -> _Parts | None:
    try:
        return msgspec.msgpack.decode(data, type=_Parts)
    except (msgspec.MsgspecError, ValueError):
        return None


def _read(data: bytes) -> Arrays:
    try:
        return {name: tensor.array() for name, tensor in _decoder.decode(data).items()}
    except (msgspec.MsgspecError, ValueError) as error:
        raise MalformedMessage(f"what was derived of a recording is damaged: {error}") from error
