"""One runner for every family's cases: what happens to streams, and what they say all the same.

A treatment opens cases in an engine that is stepped by hand. Whatever it does to them, each says
what the reference says.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic

import msgspec
import numpy as np

from talker.engine.engine import Engine
from talker.engine.stream import Event
from tests.parity.subject import C, Subject
from ttscommon.engine.runtime import Failed
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, Derived, concatenate, cut, rows
from ttscommon.wire.pieces import Piece, Text
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.streams import Taken

SLOTS: Final = 16
# Of late text, in characters a step.
_LATE: Final = 5
_MOST_STEPS: Final = 20_000


class Loaded(Generic[C]):
    """A checkpoint of a family; recordings are encoded once."""

    def __init__(self, subject: Subject[C], folder: Path, checkpoint: str) -> None:
        subject.write(folder, checkpoint)
        self.subject, self.cases = subject, subject.of(checkpoint)
        self.model = subject.load(folder)
        self._derived: dict[str, Derived] = {}

    def derived(self, case: C) -> Derived:
        if case.name not in self._derived:
            self._derived[case.name] = self.subject.derived(self.model, case)
        return self._derived[case.name]


class Run(Generic[C]):
    """An engine stepped by hand; every stream's frames by name."""

    def __init__(self, loaded: Loaded[C], depth: int = 0) -> None:
        self._loaded = loaded
        self.engine = Engine(
            loaded.model,
            slots=SLOTS,
            blocks=loaded.subject.blocks,
            metrics=Metrics(),
            depth=depth,
        )
        self.engine.listen(self._listen)
        self._chunks: dict[str, list[Arrays]] = {}
        self._running: set[str] = set()
        self._late: dict[str, tuple[Prepared, Sequence[Piece]]] = {}

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, Taken):
                self._chunks[key].append(event.frames)
                self.engine.acknowledge(key)
                continue
            self._running.discard(key)
            if isinstance(event, Failed):
                raise event.error

    def open(
        self, case: C, name: str = "", restored: Arrays | None = None, *, late: bool = False
    ) -> None:
        """Open a case as soon as a slot is free. late: its text comes step by step."""
        while len(self._running) == SLOTS:
            self.step()
        name = name or case.name
        request = msgspec.structs.replace(self._loaded.subject.request(case), request_id=name)
        pieces = self._loaded.subject.pieces(case)
        if late:
            request = msgspec.structs.replace(request, text="", text_final=False)
        prepared = self._loaded.model.prepare(request, self._loaded.derived(case))
        units = list(prepared.read([] if late else pieces, final=not late))
        self._chunks[name] = [] if restored is None else [restored]
        self._running.add(name)
        self.engine.open(prepared, restored, units, final=not late)
        if late:
            self._late[name] = (prepared, _divided(pieces))

    def step(self, *, evict: bool = False) -> None:
        for name in list(self._late):
            self._feed(name, *self._late.pop(name))
        self.engine.step()
        for stream in list(self.engine._slots) if evict else ():
            stream.evict()

    def _feed(self, name: str, prepared: Prepared, pieces: Sequence[Piece]) -> None:
        if name not in self._running:
            return
        first, rest = pieces[:1], pieces[1:]
        units = list(prepared.read(first, final=not rest))
        self.engine.feed(name, units, final=not rest)
        if rest:
            self._late[name] = (prepared, rest)

    def finish(self, evict_every: int = 0) -> Mapping[str, Arrays]:
        """All frames of every stream, those it began behind included."""
        for step in range(_MOST_STEPS):
            if not self._running:
                return {name: concatenate(chunks) for name, chunks in self._chunks.items()}
            self.step(evict=evict_every > 0 and step % evict_every == evict_every - 2)
        raise AssertionError(f"{', '.join(self._running)} did not end")


def _divided(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """A few characters at a time, or a row."""
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, FloatRows):
            found += [piece.part(at, at + 1) for at in range(len(piece))]
        elif isinstance(piece, Text):
            found += [Text(piece.text[at : at + _LATE]) for at in range(0, len(piece.text), _LATE)]
    return found


Said = dict[str, tuple[Any, Arrays]]
Treatment = Callable[[Loaded[Any]], Said]


def some(cases: Sequence[C], most: int = 4) -> Sequence[C]:
    """The first and the last of them, and others evenly between."""
    if len(cases) <= most:
        return cases
    return [cases[number * (len(cases) - 1) // (most - 1)] for number in range(most)]


def _said(run: Run[C], cases: Sequence[C], evict_every: int = 0) -> Said:
    found = run.finish(evict_every)
    return {case.name: (case, found[case.name]) for case in cases}


def batched(loaded: Loaded[C]) -> Said:
    """All of a checkpoint's cases at once."""
    run = Run(loaded)
    for case in loaded.cases:
        run.open(case)
    return _said(run, loaded.cases)


def joined(loaded: Loaded[C]) -> Said:
    """Each of some joins those that speak already."""
    run, cases = Run(loaded, depth=1), some(loaded.cases)
    for number, case in enumerate(cases):
        run.open(case)
        for _ in range(1 + 2 * (number % 4)):
            run.step()
    return _said(run, cases)


def late(loaded: Loaded[C]) -> Said:
    """The text of some comes a few characters a step."""
    run, cases = Run(loaded, depth=1), some(loaded.cases)
    for case in cases:
        run.open(case, late=True)
        run.step()
    return _said(run, cases)


def evicted(loaded: Loaded[C]) -> Said:
    """The cache is taken from some streams, again and again."""
    run, cases = Run(loaded, depth=1), some(loaded.cases)
    for case in cases:
        run.open(case)
    return _said(run, cases, evict_every=11)


def resumed(loaded: Loaded[C]) -> Said:
    """Successors of some behind the first frame, in the middle and before the last.

    Of a family's first case, behind every frame.
    """
    run, opened = Run(loaded), {}
    for case in some(loaded.cases):
        whole = loaded.subject.wanted(case)
        count = rows(whole)
        few = sorted({1, count // 2, count - 1} - {0})
        for at in range(1, count) if case is loaded.subject.cases[0] else few:
            name = f"{case.name}, behind {at} of {count} frames"
            run.open(case, name, cut(whole, 0, at))
            opened[name] = case
    found = run.finish()
    return {name: (case, found[name]) for name, case in opened.items()}


# Besides `alone`. A cloned voice and other head counts are cases of a family, not treatments.
TREATMENTS: Final[Mapping[str, Treatment]] = {
    "batched": batched,
    "joined in mid-flight": joined,
    "late text": late,
    "evicted": evicted,
    "resumed": resumed,
}


def alone(loaded: Loaded[C], case: C) -> Arrays:
    """One case by itself."""
    run = Run(loaded)
    run.open(case)
    return run.finish()[case.name]


def compare(subject: Subject[C], case: C, found: Arrays, name: str = "") -> None:
    """Raises AssertionError unless these are the reference's frames."""
    wanted = subject.wanted(case)
    assert found.keys() == wanted.keys()
    for field, array in wanted.items():
        said = f"{name or case.name}: {field}"
        if np.issubdtype(array.dtype, np.floating):
            np.testing.assert_allclose(found[field], array, 0, subject.atol, err_msg=said)
        else:
            np.testing.assert_array_equal(found[field], array, err_msg=said)
