"""The process that opens pickles: `python -m ... MEMORY_BYTES FILE_BYTES SOURCE TARGET ...`.

Neighbours with one target are gathered there.

Its last line on stdout is JSON: {"ok": true} or {"source": which, "error": why}.
"""

from __future__ import annotations

import json
import pickle
import re
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

# Where training scripts put the network's tensors beside their own books.
_HOLDERS: Final = ("state_dict", "model_state_dict", "model", "module", "generator", "net")
_VOICES: Final = "voices"
_TOO_LARGE: Final = "it asks for more memory than a file of its size may"
_GLOBAL: Final = re.compile(r"(?:GLOBAL|global) ([\w.]+)")


def main() -> None:
    """Convert one after another, and say how it went."""
    _limit(int(sys.argv[1]), int(sys.argv[2]))
    pairs = zip(sys.argv[3::2], sys.argv[4::2], strict=True)
    for target, alike in groupby(pairs, key=itemgetter(1)):
        sources = [Path(source) for source, _ in alike]
        if found := trouble(sources, Path(target)):
            print(json.dumps(found), flush=True)
            return
    print(json.dumps({"ok": True}), flush=True)


def trouble(sources: Sequence[Path], target: Path) -> dict[str, str]:
    """Convert files into one; which of them cannot be and why, or nothing."""
    source, tensors = target, dict[str, Any]()
    try:
        for source in sources:
            tensors |= _read(source)
        _write(tensors, target)
    except MemoryError:
        error = _TOO_LARGE
    except pickle.UnpicklingError as refused:
        error = _refused(str(refused))
    except Exception as other:  # noqa: BLE001 -- whatever a damaged file provokes
        error = _first_line(other)
    else:
        return {}
    return {"source": str(source), "error": error}


def _limit(memory: int, written: int) -> None:
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, written),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def _read(source: Path) -> dict[str, Any]:
    """Its tensors by name. A voice is one tensor without a name, and gets its file's."""
    import torch

    torch.set_num_threads(1)
    loaded = torch.load(source, map_location="cpu", weights_only=True)
    voice = source.parent.name == _VOICES and isinstance(loaded, torch.Tensor)
    tensors = dict(_tensors(_network(loaded), source.stem if voice else ""))
    if not tensors:
        raise ValueError("it holds no tensors by name")
    return tensors


def _write(tensors: Mapping[str, Any], target: Path) -> None:
    from safetensors.torch import save_file

    save_file(_apart(tensors), target, {"format": "pt"})


def _network(loaded: Any) -> Any:
    """What holds the tensors, within whatever a training script has put around it."""
    while isinstance(loaded, Mapping):
        inner = [name for name in _HOLDERS if isinstance(loaded.get(name), Mapping)]
        if not inner:
            break
        loaded = loaded[inner[0]]
    return loaded


def _tensors(found: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Tensors of nested mappings, by their path; anything else is a book that is not needed."""
    import torch

    if isinstance(found, torch.Tensor):
        if before:
            yield before, found.detach()
    elif isinstance(found, Mapping):
        for name, inner in found.items():
            yield from _tensors(inner, f"{before}.{name}" if before else str(name))


def _apart(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors without common memory: a file holds each by itself."""
    seen: set[int] = set()
    found = {}
    for name, tensor in tensors.items():
        whole = tensor.contiguous()
        key = whole.untyped_storage().data_ptr()
        shared = key in seen or whole.untyped_storage().nbytes() > whole.nbytes
        seen.add(key)
        found[name] = whole.clone() if shared else whole
    return found


def _refused(message: str) -> str:
    """What the reader for weights says, without its advice on how to run code after all."""
    if named := _GLOBAL.search(message):
        return f"it holds more than weights ({named[1]}), which would be executed"
    return "it is no pickle of weights, or is damaged"


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [""])[0]
    if "memory" in line.lower() or "alloc" in line.lower():
        return _TOO_LARGE
    return f"{type(error).__name__}: {line}"[:300]


if __name__ == "__main__":
    main()
