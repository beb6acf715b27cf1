"""Checkpoints as their authors publish them: found, downloaded, joined and converted, once.

A family says which files of a repository it reads, and what of other repositories belongs to it.
No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ttscommon.engine.assembly import Chosen, assembled
from ttscommon.engine.checkpoint import (
    CONFIG,
    ONNX,
    PICKLES,
    TENSORS,
    VOICES,
    CheckpointError,
    hub_name,
    read_json,
)
from ttscommon.engine.conversion import Shown
from ttscommon.engine.foreign import foreign_names
from ttscommon.engine.hub import TALKER, HubName, due, fetch, listed
from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs
from ttsfamilies.known import FAMILIES

_USUAL: Final = ("*.json", "*.txt", "*.model", f"*{TENSORS}")
_FILES: Final = (*_USUAL, *(f"*/{pattern}" for pattern in _USUAL))
_FORM: Final = "transformers"
_VOICES: Final = PurePosixPath(VOICES).stem


@dataclass(frozen=True)
class Telling:
    """Who hears what happens. say: a line. shown: how far a conversion is."""

    say: Callable[[str], object] = lambda line: None
    shown: Shown = lambda done, whole: None


SILENTLY: Final = Telling()
"""For callers that show no progress."""


def find(given: str, told: Telling = SILENTLY) -> Path:
    """The folder of a checkpoint as services read it, or the file of a voice.

    given: a folder, or a place on the hub, of which FOLDER may be a file. What is missing is
    downloaded; what is pickled or apart is made ready in a cache. Raises CheckpointError.
    """
    place = Path(given)
    if place.is_dir():
        return _ready(_local(place, told), told)
    if place.suffix == ONNX and place.is_file():
        return place
    chosen = _downloaded(hub_name(given), told)
    voices = [name for name in chosen.files if name.endswith(ONNX)]
    whole = [*voices, *(f"{name}.json" for name in voices)]
    found = _ready(chosen, told)
    return found / voices[0] if len(voices) == 1 and set(chosen.files) == set(whole) else found


def _ready(chosen: Chosen, told: Telling) -> Path:
    return assembled(chosen, say=told.say, shown=told.shown)


def _local(folder: Path, told: Telling) -> Chosen:
    """A folder with what it lacks, as far as there is no speech without."""
    below = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = [str(path) for path in below if not any(part[0] == "." for part in path.parts)]
    config = folder / CONFIG if CONFIG in names else None
    facts = _facts(names, config)
    if facts is None:
        return Chosen(folder, {})
    files = {name: name for name in names if PurePosixPath(name).suffix not in PICKLES}
    files |= selected(names, facts)
    there = {name.partition("/")[0] for name in names if "/" in name}
    beside = _beside(facts, there, told, only_needed=True)
    return Chosen(folder, files, beside)


def _downloaded(hub: HubName, told: Telling) -> Chosen:
    files, place, only = listed(hub), hub, ""
    if place.folder in files:
        above, _, only = place.folder.rpartition("/")
        place = place._replace(folder=above)
    names = _below(files, place.folder)
    if not names:
        raise CheckpointError(f"{hub} cannot be downloaded: there is no such folder")
    config = fetch(place, [CONFIG]) / CONFIG if CONFIG in names else None
    facts = _facts(names, config, hub)
    read = selected(names, facts, only)
    if not read or (facts is None and not any(name.endswith((TENSORS, ONNX)) for name in read)):
        raise CheckpointError(foreign_names(Path(str(hub)), sorted(names)) or _unknown(hub, names))
    folder = _fetched(place, list(read.values()), names, told)
    there = {name.partition("/")[0] for name in read if "/" in name}
    return Chosen(folder, read, _beside(facts, there, told) if facts else {})


def _below(files: Mapping[str, int], folder: str) -> dict[str, int]:
    begin = f"{folder}/" if folder else ""
    return {n.removeprefix(begin): size for n, size in files.items() if n.startswith(begin)}


def _fetched(place: HubName, names: Sequence[str], sizes: Mapping[str, int], told: Telling) -> Path:
    count = sum(sizes[name] for name in names)
    told.say(f"{place}: {len(names)} files, {count / 1e6:.0f} MB")
    return fetch(place, names)


def _beside(
    facts: FamilyFacts | CodecFacts,
    there: Collection[str],
    told: Telling,
    only_needed: bool = False,
) -> dict[str, Chosen]:
    """What of other repositories lies in a talker's folder and is not there."""
    found = {}
    for other in facts.beside if isinstance(facts, FamilyFacts) else ():
        if other.inside in there or (only_needed and not other.needed):
            continue
        hub = HubName.parse(other.repository)
        assert hub is not None, "a family names its repositories"
        names = listed(hub)
        files = {name: name for name in names if _matches(name, other.files)}
        if not files:
            raise CheckpointError(f"{hub} has none of {', '.join(other.files)}")
        found[other.inside] = Chosen(_fetched(hub, list(files), names, told), files)
    return found


def _facts(
    names: Collection[str], config: Path | None, hub: HubName | None = None
) -> FamilyFacts | CodecFacts | None:
    """The family or codec whose a repository is, by its name, its config.json or its files."""
    known = [each for family in FAMILIES for each in (family, family.codec)]
    if hub is not None:
        place = str(hub._replace(revision=None))
        if found := [each for each in known if place in _names_of(each)]:
            return found[0]
    said = read_json(config, dict[str, Any]) if config else {}
    signs = Signs(said, frozenset)
    for each in known if said else ():
        if each.fits(signs):
            return each
    for family in FAMILIES:
        if family.recognised_by and all(
            any(_matches(name, (pattern,)) for name in names) for pattern in family.recognised_by
        ):
            return family
    return None


def _names_of(facts: FamilyFacts | CodecFacts) -> tuple[str, ...]:
    return (facts.published,) if isinstance(facts.published, str) else facts.published


def selected(
    names: Collection[str], facts: FamilyFacts | CodecFacts | None, only: str = ""
) -> dict[str, str]:
    """The files that a family reads, by the names that it reads them under.

    only: one that is asked for in place of others of its kind.
    """
    patterns = (facts.files if facts else ()) or _FILES
    wanted = [name for name in names if _matches(name, patterns)]
    if only := only or _usual(wanted):
        wanted = [*(name for name in wanted if not _rivals(name, only)), only]
    renamed = facts.renamed if isinstance(facts, FamilyFacts) else ()
    found = {_renamed(name, renamed): name for name in wanted}
    kept = set(_due(found))
    return {
        name: path
        for name, path in found.items()
        if PurePosixPath(name).suffix not in PICKLES or name in kept
    }


def _due(names: Collection[str]) -> Iterator[str]:
    """Pickles that are not there as safetensors too."""
    folders = {PurePosixPath(name).parent for name in names}
    for folder in folders:
        if folder.name == _VOICES and str(folder.parent / VOICES) in names:
            continue
        inside = [PurePosixPath(name) for name in names if PurePosixPath(name).parent == folder]
        yield from (str(folder / name) for name in due([path.name for path in inside]))


def _usual(names: Collection[str]) -> str:
    """Of several talkers in one folder the one that is taken unasked; empty where one is all."""
    talkers = sorted(name for name in names if name.startswith(TALKER) and name.endswith(TENSORS))
    if len(talkers) > 1:
        return next((name for name in talkers if name == f"{TALKER}cfg{TENSORS}"), talkers[0])
    transformed = [name for name in names if name.startswith(_FORM) and name.endswith(TENSORS)]
    return transformed[0] if transformed else ""


def _rivals(name: str, only: str) -> bool:
    """Whether a file is of the kind of `only`, in place of which that is taken."""
    if only.endswith(ONNX):
        return name.endswith((ONNX, f"{ONNX}.json")) and not name.startswith(only)
    if only.startswith(_FORM):  # two forms of one model
        return name.startswith("model") and name.endswith((TENSORS, f"{TENSORS}.index.json"))
    return only.startswith(TALKER) and name.startswith(TALKER) and name.endswith(TENSORS)


def _renamed(name: str, names: Collection[tuple[str, str]]) -> str:
    return next((new for old, new in names if fnmatchcase(name, old)), name)


def _matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a path is one of the patterns, whose `*` is no `/`."""
    parts = name.split("/")
    return any(
        len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
        for wanted in (pattern.split("/") for pattern in patterns)
    )


def _unknown(hub: HubName, names: Collection[str]) -> str:
    known = ", ".join(family.title for family in FAMILIES)
    there = ", ".join(sorted(names)[:5])
    return f"{hub} holds nothing that is served ({there}); known: {known}"
