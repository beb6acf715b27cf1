"""Packages without what they would import: libraries of other builds, servers, watermarks."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def bare(*names: str) -> None:
    """Packages whose `__init__` would import more: paths alone."""
    for name in names:
        if name in sys.modules:
            continue
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        module = ModuleType(name)
        module.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = module


def quiet(name: str, **members: Any) -> None:
    """A module that would import what is not there."""
    module = ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


def without_libraries() -> None:
    """Have torchaudio do without its own, which ask for a device's: nothing here calls them."""
    aligned = {"fail_if_no_align": lambda function: function}
    quiet("torchaudio._extension", _IS_TORCHAUDIO_EXT_AVAILABLE=False, **aligned)
