"""One recording at a time in a process, whatever devices and threads record."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_RECORDING: Final = threading.Lock()


@contextmanager
def alone() -> Iterator[None]:
    """What is recorded inside is disturbed by no other recording, nor by the garbage collector.

    A capture fails if another thread waits for the whole device, as beginning and ending a capture
    may, or if an object that the collector frees gives its memory back to the device meanwhile.
    """
    with _RECORDING:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
