"""A codec's digest: of its config and tensors, which tell it from others, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from ttscommon.engine.checkpoint import CheckpointError, codec_digest, read_json, tensor_files
from ttsfamilies.base.facts import CodecFacts
from ttsfamilies.base.registry import read_header

_LENGTH: Final = 8
_CHUNK: Final = 1 << 20


def digest_of(codec: CodecFacts, folder: Path) -> str:
    """Hexadecimal SHA-256 of a codec in its own folder or in its talker's: equal ones are one.

    Of a talker's files only what belongs to the codec is read. Raises CheckpointError.
    """
    files = {path: read_header(path) for path in tensor_files(folder)} if codec.prefixes else {}
    if not any(name.startswith(codec.prefixes) for header in files.values() for name in header):
        return codec_digest(folder)
    hashed = hashlib.sha256(_config(folder / "config.json", codec.config))
    for path, header in files.items():
        try:
            with path.open("rb") as file:
                for part in _parts(file, path, header, codec.prefixes):
                    hashed.update(part)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    return hashed.hexdigest()


def _config(path: Path, key: str) -> bytes:
    said = read_json(path, dict[str, Any]) if key and path.exists() else {}
    return json.dumps(said.get(key), sort_keys=True).encode()


def _parts(
    file: BinaryIO, path: Path, header: Mapping[str, Any], prefixes: tuple[str, ...]
) -> Iterator[bytes]:
    """Name, type and shape, and then the numbers, of each tensor whose name begins so."""
    begin = _LENGTH + int.from_bytes(file.read(_LENGTH), "little")
    for name in sorted(name for name in header if name.startswith(prefixes)):
        said = header[name]
        try:
            first, last = (int(each) for each in said["data_offsets"])
            yield f"{name} {said['dtype']} {said['shape']} {last - first}\n".encode()
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{path} is damaged: its header says no place of {name}"
            ) from error
        file.seek(begin + first)
        yield from _read(file, path, last - first)


def _read(file: BinaryIO, path: Path, count: int) -> Iterator[bytes]:
    while count > 0:
        data = file.read(min(count, _CHUNK))
        if not data:
            raise CheckpointError(f"{path} is truncated or damaged: download it again")
        count -= len(data)
        yield data
