"""torchaudio in an environment whose torch is another than it was built for."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def without_libraries() -> None:
    """Have torchaudio do without its own, which ask for a device's: nothing here calls them."""
    extension: Any = ModuleType("torchaudio._extension")
    extension._IS_TORCHAUDIO_EXT_AVAILABLE = False
    extension.fail_if_no_align = lambda function: function
    sys.modules[extension.__name__] = extension
