"""Messages between two processes of one service: both ways, in order, answered where asked."""

from __future__ import annotations

import itertools
import os
import pickle
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import structlog

from ttscommon.wire.errors import AntiphonError

_THREADS: Final = 8
# The longest call is a recording's encoding; a process that is gone is heard of at once.
CALL_TIMEOUT_S: Final = 150.0

log_ = structlog.get_logger(__name__)

# What is said, the number that its answer has if it wants one, and what goes with it.
Message = tuple[str, int | None, tuple[Any, ...]]


class LineClosed(Exception):
    """The process at the other end is gone."""


class EngineLine:
    """One end. `handlers` hear the other end by name: what was `cast`, one by one on the reader's
    thread, so that they may not block; what was `call`ed, on threads of their own.

    The other end is a process of the same installation that this one started, or was started by:
    messages are pickled. They are read at once whatever comes of them, so neither end waits long
    for the other to read.
    """

    def __init__(
        self,
        connection: Connection,
        handlers: Mapping[str, Callable[..., Any]],
        closed: Callable[[], object] = lambda: None,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """closed: called once, on the reader's thread, when the other end is gone. soon: has what
        it is given called before long, so that all that is cast until then travels together; None:
        everything travels at once.
        """
        self._connection = connection
        self._soon = soon
        self._waiting: list[Message] = []
        self._handlers = handlers
        self._closed = closed
        self._gathering, self._sending = threading.Lock(), threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="line")
        self._thread = threading.Thread(target=self._read, name="line", daemon=True)
        self.open = True

    def start(self) -> None:
        self._thread.start()

    def cast(self, name: str, *args: Any) -> None:
        """Have the other end do something; raises LineClosed, unless it travels later."""
        message = (name, None, args)
        if self._soon is None:
            self._send(message)
            return
        with self._gathering:
            first = not self._waiting
            self._waiting.append(message)
        if first:
            self._soon(self._flush)

    def call(self, name: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """What the other end answers. Raises what it raised, LineClosed, or TimeoutError."""
        number, answer = next(self._numbers), Future[Any]()
        self._asked[number] = answer
        try:
            self._send((name, number, args))
            if not self.open:  # closed between the two, and what was asked already given up
                raise LineClosed
            return answer.result(timeout_s)
        finally:
            self._asked.pop(number, None)

    def close(self) -> None:
        """Let the other end know that this one is gone.

        The reader, if there is one, gives the descriptor back: who closed it here would leave it
        reading whatever has that number next.
        """
        self.open = False
        if self._thread.ident is None:
            self._connection.close()
            return
        with self._gathering, suppress(OSError):
            end = socket.socket(fileno=os.dup(self._connection.fileno()))
            with end:
                end.shutdown(socket.SHUT_RDWR)

    def _flush(self) -> None:
        with suppress(LineClosed):
            self._send()

    def _send(self, *messages: Message) -> None:
        """Behind all that waits."""
        try:
            with self._sending:
                with self._gathering:
                    waiting, self._waiting = self._waiting, []
                if waiting or messages:
                    packed = pickle.dumps([*waiting, *messages], protocol=5)
                    self._connection.send_bytes(packed)
        except (OSError, ValueError) as error:
            raise LineClosed from error

    def _read(self) -> None:
        try:
            while True:
                for message in pickle.loads(self._connection.recv_bytes()):
                    self._take(*message)
        except (EOFError, OSError):
            pass
        except Exception as error:
            log_.critical("line.broken", exc_info=error)
        with self._sending, self._gathering:
            self._connection.close()
        self._end()

    def _take(self, name: str, number: int | None, args: tuple[Any, ...]) -> None:
        if name == _ANSWER:
            self._answered(*args)
        elif number is not None:
            self._pool.submit(self._answer, name, number, args)
        else:
            self._handlers[name](*args)

    def _answer(self, name: str, number: int, args: tuple[Any, ...]) -> None:
        value, error = None, None
        try:
            value = self._handlers[name](*args)
        except Exception as raised:  # noqa: BLE001 -- is raised where it was asked for
            error = portable(raised)
        try:
            self.cast(_ANSWER, number, value, error)
        except LineClosed:
            return

    def _answered(self, number: int, value: Any, error: Exception | None) -> None:
        if (asked := self._asked.pop(number, None)) is None:
            return
        if error is None:
            asked.set_result(value)
        else:
            asked.set_exception(error)

    def _end(self) -> None:
        self.open = False
        for asked in list(self._asked.values()):
            if not asked.done():
                asked.set_exception(LineClosed())
        self._pool.shutdown(wait=False)
        self._closed()


_ANSWER: Final = "answer"


def portable(error: Exception) -> Exception:
    """The same error as another process can read it, with its traceback as a note if it is none of
    those that are expected.
    """
    if not isinstance(error, AntiphonError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 -- of whatever library it is
        other = RuntimeError(f"{type(error).__name__}: {error}")
        other.__notes__ = getattr(error, "__notes__", [])
        return other
    return error


class EngineState(NamedTuple):
    """See StageEngine. turns: that its thread has made so far."""

    step_seconds: dict[int, float]
    frame_seconds: float
    kv_positions: tuple[int, int]
    slowed: float
    turns: int
