"""Parts of every client: the observation of one stream, and how failures are named."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import aiohttp
import numpy as np
from numpy.typing import NDArray

from antiphon_bench.arrivals import ScheduledRequest
from antiphon_bench.config import Target
from ttscommon.sound.playback import Arrival, PlaybackAccount

# Of a stream, not of a stage.
_TOTALS = frozenset({"duration_s", "played_s", "underrun_s"})


class Failure(Exception):
    """A request that ended otherwise than well. `kind` is short and countable. `retry_after_s`:
    when the server said to come again.
    """

    def __init__(
        self, kind: str, message: str, *, refused: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.refused = refused
        self.retry_after_s = retry_after_s


class Observation:
    """Everything seen of one request; times are seconds since it was made."""

    def __init__(self, *, keep_audio: bool = False) -> None:
        self._origin = time.perf_counter()
        self.connect_s: float | None = None
        self.ttfb_s: float | None = None
        self.ttfa_s: float | None = None
        self.ended_s: float | None = None
        self.request_id: str | None = None
        self.server: dict[str, float] = {}
        self.account: PlaybackAccount | None = None
        self.trace_s: list[float] = []
        self.trace_samples: list[int] = []
        self.pcm: bytearray | None = bytearray() if keep_audio else None
        self._audible = AudibleDetector()
        self._frame_bytes = 2
        self._half = b""

    def now_s(self) -> float:
        """Time since the request was made."""
        return time.perf_counter() - self._origin  # the loop's own clock counts whole ms

    def started(self, at_s: float | None = None) -> None:
        """The server's first answer is here (headers, or the first audio message)."""
        if self.ttfb_s is None:
            self.ttfb_s = self.now_s() if at_s is None else at_s

    def format(self, sample_rate: int, channels: int = 1) -> None:
        """Audio that follows is int16 at this rate (hz)."""
        if self.account is None:
            self.account = PlaybackAccount(sample_rate)
            self._frame_bytes = 2 * channels

    def audio(self, data: bytes) -> None:
        """A piece of audio arrived; it may end inside a sample."""
        now_s = self.now_s()
        if self.account is None:
            raise Failure("protocol", "audio before its format")
        data = self._half + data if self._half else data
        samples, rest = divmod(len(data), self._frame_bytes)
        self._half = data[len(data) - rest :] if rest else b""
        arrival = self.arrived(samples, now_s)
        if arrival is None:
            return
        if self.pcm is not None:
            self.pcm += data[: len(data) - rest]
        if not self._audible.found:
            pcm = np.frombuffer(data, dtype="<i2", count=samples * self._frame_bytes // 2)
            loud = self._audible.feed(pcm)
            if loud is not None:
                offset = loud // (self._frame_bytes // 2)
                self.ttfa_s = arrival.plays_at_s + offset / self.account.sample_rate

    def arrived(self, samples: int, now_s: float | None = None) -> Arrival | None:
        """So many samples arrived, in a format that is not decoded here."""
        if self.account is None:
            raise Failure("protocol", "audio before its format")
        if not samples:
            return None
        now_s = self.now_s() if now_s is None else now_s
        self.trace_s.append(round(now_s, 6))
        self.trace_samples.append(samples)
        return self.account.feed(samples, now_s)

    def ended(self) -> None:
        """Nothing more will come; what closing the connection takes is no listener's wait."""
        if self.ended_s is None:
            self.ended_s = self.now_s()

    def breakdown(self, fields: Mapping[str, Any]) -> None:
        """Keeps the durations (`*_s` numbers) of the server's own account."""
        for name, value in fields.items():
            if isinstance(value, Mapping):
                self.breakdown(value)
            elif name in _TOTALS:
                continue
            elif name.endswith("_s") and isinstance(value, int | float):
                self.server[name] = float(value)

    def finish(self) -> None:
        """The server says it is done; raises Failure when there was nothing to hear."""
        if self._half:
            raise Failure("truncated", "the audio ends inside a sample")
        if self.account is None or not self.account.samples:
            raise Failure("no_audio", "the response ended well without a single sample")


class SpeechClient(ABC):
    """Asks a server for speech. An async context manager, because it may own connections."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session; RuntimeError outside the context manager."""
        if self._session is None:
            raise RuntimeError("use the client as an async context manager")
        return self._session

    async def __aenter__(self) -> Self:
        headers = dict(self.target.headers)
        if self.target.api_key:
            headers["Authorization"] = f"Bearer {self.target.api_key}"
        self._session = aiohttp.ClientSession(
            # No limit: a queue of connections here would hide the server's behind ours.
            connector=aiohttp.TCPConnector(limit=0, force_close=not self.target.keep_alive),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
            trace_configs=[_connect_trace()],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self.session, None
        await session.close()

    async def speak(self, job: ScheduledRequest, seen: Observation) -> None:
        """Runs one request to its end, filling `seen`; raises Failure, nothing else."""
        try:
            async with asyncio.timeout(self.target.timeout_s):
                await self._speak(job, seen)
        except TimeoutError as error:
            stage = "stalled" if seen.trace_s else "no_first_audio"
            limit = f"after {self.target.timeout_s:g} s"
            raise Failure(f"timeout_{stage}", limit) from error
        except aiohttp.WSServerHandshakeError as error:
            raise failure_of_status(error.status, str(error.message)) from error
        except aiohttp.ClientConnectorError as error:
            raise Failure("connect", str(error)) from error
        except aiohttp.ClientPayloadError as error:
            raise Failure("truncated", str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Failure("disconnected", f"{type(error).__name__}: {error}") from error
        finally:
            seen.ended()
        seen.finish()

    @abstractmethod
    async def _speak(self, job: ScheduledRequest, seen: Observation) -> None:
        """Speaks the protocol; may raise Failure and whatever aiohttp raises."""

    def merged(self, fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` with the target's own merged in; a null removes a field."""
        if self.target.seed is not None:
            fields["seed"] = self.target.seed
        return {k: v for k, v in (fields | self.target.body).items() if v is not None}


def failure_of_status(
    status: int, message: str, code: str | None = None, retry_after_s: float | None = None
) -> Failure:
    """The failure an HTTP status means; 429 is a refusal, not an error."""
    kind = f"http_{status}" + (f"_{code}" if code else "")
    refused = status == 429 or code == "overloaded"
    return Failure(kind, message, refused=refused, retry_after_s=retry_after_s)


def seconds(value: object) -> float | None:
    """A wait that a server names; None if it names none, or a date."""
    text = str(value)
    return float(text) if text.replace(".", "", 1).isdigit() else None


def _connect_trace() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()

    async def connected(_session: Any, context: Any, _params: Any) -> None:
        seen = context.trace_request_ctx
        if isinstance(seen, Observation):
            seen.connect_s = seen.now_s()

    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace


class AudibleDetector:
    """Finds the first sample louder than a threshold in a stream of int16 pieces."""

    def __init__(self, threshold_dbfs: float = -50.0) -> None:
        self._level = 32768.0 * 10.0 ** (threshold_dbfs / 20.0)
        self.found = False

    def feed(self, pcm: NDArray[np.int16]) -> int | None:
        """Returns the index in `pcm` [samples] of the first audible sample, once."""
        if self.found or pcm.size == 0:
            return None
        loud = np.abs(pcm.astype(np.int32)) > self._level
        index = int(loud.argmax())
        if not loud[index]:
            return None
        self.found = True
        return index
