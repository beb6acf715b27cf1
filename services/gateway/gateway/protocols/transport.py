"""What carries a session's frames, apart from what they say."""

from __future__ import annotations

from typing import Any, Protocol


class Gone(Exception):
    """The client's connection is over. `lost`: it broke, as far as anybody can tell."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost


class Transport(Protocol):
    """What carries a session's frames."""

    @property
    def connected(self) -> bool:
        """Whether anything can still be sent."""

    async def receive(self) -> Any:
        """The next frame; raises Gone, and an AntiphonError for what is none."""

    async def send(self, data: str | bytes) -> None:
        """Raises Gone."""

    async def close(self, code: int) -> None:
        """Raises Gone."""
