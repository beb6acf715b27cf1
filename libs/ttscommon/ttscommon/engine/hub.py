"""Checkpoints from the Hugging Face hub: pinned, resumed, checked before they are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from ttscommon.wire.errors import VoiceError

CONFIG: Final = "config.json"
TENSORS: Final = ".safetensors"
PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_NAME: Final = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)((?:/[A-Za-z0-9][\w.-]*)*)")
_REVISION: Final = re.compile(r"[\w./-]{1,200}")
_WANTED: Final = (
    *("*.json", "*.txt", "*.model", f"*{TENSORS}"),
    # What CosyVoice hears recordings with; other ONNX files are copies of networks.
    *("campplus.onnx", "speech_tokenizer_v[23].onnx"),
    *("token2wav/campplus.onnx", "token2wav/speech_tokenizer_v2_25hz.onnx"),
)
_CHECKED: Final = ".checked.json"


class CheckpointError(VoiceError):
    """A checkpoint is missing, incomplete, damaged, or of a kind that is not served."""


class HubName(NamedTuple):
    """A place on the hub. revision: a commit, branch or tag; None is the newest. folder: within
    the repository; empty is all of it.
    """

    name: str
    revision: str | None = None
    folder: str = ""

    @classmethod
    def parse(cls, given: str) -> HubName | None:
        """`ORG/NAME`, `ORG/NAME@REVISION`, or either with `/FOLDER` behind the name; None for what
        is neither.
        """
        place, at, revision = given.partition("@")
        found = _NAME.fullmatch(place)
        if not found or (at and not _REVISION.fullmatch(revision)):
            return None
        return cls(found[1], revision or None, found[2].strip("/"))

    def __str__(self) -> str:
        place = f"{self.name}/{self.folder}" if self.folder else self.name
        return f"{place}@{self.revision}" if self.revision else place


def listed(hub: HubName) -> dict[str, int]:
    """Files of a whole repository and their bytes; without a network, what was downloaded of it.

    Raises CheckpointError.
    """
    with _failures(hub) as client:
        try:
            told = client.HfApi().model_info(hub.name, revision=hub.revision, files_metadata=True)
        except Exception as error:  # noqa: BLE001 -- whatever the client's transport raises
            return _cached(client, hub, error)
    return {one.rfilename: one.size or 0 for one in told.siblings or ()}


def _cached(client: Any, hub: HubName, error: Exception) -> dict[str, int]:
    """What was downloaded before; raises CheckpointError for `error` where there is nothing."""
    try:
        found = _snapshot(client, hub, [CONFIG], local_files_only=True)
    except Exception:  # noqa: BLE001 -- likewise
        raise _not_downloaded(hub, error) from error
    paths = [path for path in found.rglob("*") if path.is_file() and path.name != _CHECKED]
    return {str(path.relative_to(found)): path.stat().st_size for path in paths}


def fetch(hub: HubName, files: Sequence[str]) -> Path:
    """The folder that has these files of a place, downloaded where they are not there yet, and
    checked. Raises CheckpointError.
    """
    folder = f"{hub.folder}/" if hub.folder else ""
    with _failures(hub) as client:
        found = _snapshot(client, hub, [escape(f"{folder}{name}") for name in files])
    check(found)
    return found / hub.folder


def _snapshot(client: Any, hub: HubName, patterns: Sequence[str], **how: Any) -> Path:
    return Path(
        client.snapshot_download(
            hub.name, revision=hub.revision, allow_patterns=list(patterns), **how
        )
    )


def download(hub: HubName, *, pickles: bool = False) -> Path:
    """The folder of a checkpoint, downloaded where it is not there yet, and checked.

    pickles: take them too, for a conversion. Raises CheckpointError, which for a checkpoint of
    pickles alone names the command that converts it.
    """
    suffixes = [*_WANTED, *(f"*{suffix}" for suffix in PICKLES)] if pickles else list(_WANTED)
    patterns = [f"{within}{suffix}" for within in _within(hub) for suffix in suffixes]
    with _failures(hub) as client:
        found = _snapshot(client, hub, patterns)
    check(found)
    folder = found / hub.folder
    if not folder.is_dir():
        raise CheckpointError(f"{hub} cannot be downloaded: there is no such folder")
    if not pickles and not any(folder.rglob(f"*{TENSORS}")):
        _refuse_pickles(hub)
    return folder


def _within(hub: HubName) -> tuple[str, str]:
    """What the names of wanted files begin with."""
    folder = f"{hub.folder}/" if hub.folder else ""
    return folder, f"{folder}*/"


@contextmanager
def _failures(hub: HubName) -> Iterator[Any]:
    """The hub's client, whose errors become ours."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise CheckpointError(
            f"{hub} is no folder, and names on the hub need `pip install 'antiphon[families]'`:"
            f" {error.name} is not installed"
        ) from error
    try:
        yield huggingface_hub
    except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as error:
        raise _not_downloaded(hub, error) from error


def _not_downloaded(hub: HubName, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{hub} cannot be downloaded: {_first_line(error)}; give the path of a folder instead"
    )


def _refuse_pickles(hub: HubName) -> None:
    """Raises CheckpointError where the hub has tensors in pickles alone."""
    with _failures(hub) as huggingface_hub:
        names = huggingface_hub.list_repo_files(hub.name, revision=hub.revision)
    here = _within(hub)[0]
    found = sorted(name for name in names if name.startswith(here) and name.endswith(PICKLES))
    if found:
        raise CheckpointError(refusal(f"{hub} has {found[0]}, which", str(hub)))


def refusal(what: str, where: str) -> str:
    """Why a pickle is not read, and what to do."""
    return (
        f"{what} is a pickle and can execute code when it is loaded: convert it once, with"
        f" `antiphon convert {where}`"
    )


def check(folder: Path) -> None:
    """Compare files that the hub's client downloaded with the hashes that name them.

    Raises CheckpointError, and removes the file, so that the next start downloads it again. A file
    that was compared and has not changed since is not read again.
    """
    known = _known(folder)
    found: dict[str, tuple[str, int, int]] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink() or not path.is_file():
            continue  # not the hub's: converted here, or a copy without names
        name, stat = str(path.relative_to(folder)), path.stat()
        entry = (path.resolve().name, stat.st_size, stat.st_mtime_ns)
        if known.get(name) != entry:
            _compare(path, entry[0])
        found[name] = entry
    if found != known:
        with suppress(OSError):  # a read-only cache is checked at each start
            (folder / _CHECKED).write_bytes(msgspec.json.encode(found))


def _known(folder: Path) -> dict[str, tuple[str, int, int]]:
    try:
        return msgspec.json.decode(
            (folder / _CHECKED).read_bytes(), type=dict[str, tuple[str, int, int]]
        )
    except (OSError, msgspec.MsgspecError):
        return {}


def _compare(path: Path, name: str) -> None:
    head = b"blob %d\0" % path.stat().st_size
    # By the digits of the name: SHA-256, and SHA-1 as git names a file.
    ways: dict[int, Callable[[], Any]] = {
        64: hashlib.sha256,
        40: lambda: hashlib.sha1(head, usedforsecurity=False),
    }
    if (way := ways.get(len(name))) is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, way).hexdigest()
    if found != name:
        blob = path.resolve()
        path.unlink()
        blob.unlink()
        raise CheckpointError(
            f"{path} is not what the hub has: it was damaged on its way or on this disk, and is"
            " removed; start again to download it"
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# Parts of one model whose tensors' names do not meet: CosyVoice's, the decoders of GLM-4-Voice and
# of Step-Audio 2, and Tacotron 2 with HiFi-GAN.
PARTS: Final = (
    ("llm.pt", "flow.pt", "hift.pt"),
    ("flow.pt", "hift.pt"),
    ("tacotron2.pt", "generator.pt"),
)
# Of Chatterbox: beginnings of talkers' names, and the files that each of them needs.
TALKER: Final = "t3_"
BESIDE: Final = (("s3gen_meanflow", "s3gen"), ("ve",), ("conds",))
# A codec that lies beside its talker's safetensors, and keeps its name: Fish Audio's, VoxCPM2's.
CODECS: Final = ("codec", "audiovae")
_STEMS: Final = (PurePosixPath(name).stem for parts in PARTS for name in parts)
_APART: Final = frozenset((*CODECS, *(stem for stems in BESIDE for stem in stems), *_STEMS))


def due(names: Collection[str]) -> list[str]:
    """Of the files in one folder, the pickles that have to be converted before it can be served."""
    stems = {name.partition(TENSORS)[0] for name in names if TENSORS in name}
    pickles = [name for name in names if PurePosixPath(name).suffix in PICKLES]
    found = [name for name in pickles if PurePosixPath(name).stem not in stems]
    return sorted(name for name in found if not stems or PurePosixPath(name).stem in _APART)


def unordered(names: Collection[str]) -> bool:
    """Whether files are of one model and no index says so: Chatterbox's."""
    talkers = [name for name in names if name.startswith(TALKER) and name.endswith(TENSORS)]
    return bool(talkers) and not any(name.endswith(".index.json") for name in names)
