"""Adapters of a loaded network: several at once, one for each row, without a copy of its weights.

A linear module keeps its own product; what an adapter adds comes behind it. Rows without an adapter
are not touched, not even by a zero. On the CPU the rows of an adapter are computed together, in
multiples of four, so that a row's bits do not depend on its company (see `exact`). On a device all
is one shape, with the adapters in slots that stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from ttscommon.cluster.adapters.peft import Lora, LoraPair
from ttscommon.engine.kernels.lora import add_lora
from ttscommon.engine.nn.exact import pad_rows
from ttscommon.engine.nn.linears import Float8Linear, WideLinear
from ttscommon.engine.nn.packed import PackedLinear
from ttscommon.engine.nn.weights import Sources
from ttscommon.wire.errors import InvalidAdapter, UnknownAdapter

_WEIGHT: Final = ".weight"
_LINEARS: Final = (nn.Linear, WideLinear, PackedLinear, Float8Linear)
_NAMED: Final = 3
_RANK_TILE: Final = 8

Linear = nn.Linear | PackedLinear | Float8Linear
# A module's product with an adapter's two halves: a [rank, in], b [out, rank].
Halves = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LoraRows:
    """A published module inside of a joined one: its output is rows first .. first + rows."""

    site: Site
    index: int
    first: int
    rows: int


@dataclass(eq=False)
class Site:
    """A linear module that may be adapted. a, b: on a device, [slots, ...]; on the CPU by slot."""

    linear: Linear
    parts: int
    a: Tensor | None = None
    b: Tensor | None = None
    known: dict[int, Halves] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """An adapter as one network takes it: the halves of each site, on the host. size: in bytes."""

    digest: str
    sites: Sequence[tuple[Site, Tensor, Tensor]]

    @property
    def size(self) -> int:
        return sum(half.nbytes for _, *halves in self.sites for half in halves)


class AdapterBank:
    """The adapters of one network. `slots`: how many it holds at once; row id 0 is none.

    `fitted` and `put` may be called from any thread while the network computes: no row may use the
    slot that is written.
    """

    def __init__(
        self,
        net: nn.Module,
        sources: Sources,
        slots: int,
        most_rank: int,
        *,
        roots: Sequence[str] = ("",),
        fixed: bool = False,
        beside: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """sources: what checkpoints call the network's parameters. roots: what training may have
        left out at the beginning of these names. fixed: memory for all slots is taken now, and
        nothing is read on the host. beside: within it a copy does not wait for a device's steps.
        """
        self.slots, self.most_rank = slots, most_rank
        self._roots, self._fixed, self._beside = roots, fixed, beside
        self._sites: list[Site] = []
        self._digests: dict[str, int] = {}
        self._rows: _DeviceRows | _HostRows | None = None
        self._parts: dict[str, LoraRows] = {}
        for name, module in net.named_modules():
            source = sources.get(name + _WEIGHT)
            if source is not None and type(module) in _LINEARS:
                assert isinstance(module, Linear)
                self._add_site(module, source.names, source.rows or (module.out_features,))

    def _add_site(self, linear: Linear, names: Sequence[str], rows: Sequence[int]) -> None:
        site, first = Site(linear, len(names)), 0
        self._sites.append(site)
        for index, (name, count) in enumerate(zip(names, rows, strict=True)):
            self._parts[name.removesuffix(_WEIGHT)] = LoraRows(site, index, first, count)
            first += count
        if self._fixed:
            rank = self.most_rank * len(names)
            assert not isinstance(linear, PackedLinear)
            made = partial(torch.zeros, dtype=_type_of(linear), device=linear.weight.device)
            site.a = made(self.slots, rank, linear.in_features)
            site.b = made(self.slots, linear.out_features, rank)
        linear.register_forward_hook(self._hook(site))

    def _hook(self, site: Site) -> Callable[[nn.Module, Any, Tensor], None]:
        def add(_: nn.Module, given: tuple[Tensor], out: Tensor) -> None:
            if self._rows is not None:
                self._rows.add(site, given[0], out)

        return add

    @contextmanager
    def rows(self, ids: Tensor) -> Iterator[None]:
        """What is computed inside is of rows [rows, ...] with these adapters, [rows] int64."""
        self._rows = _DeviceRows(ids) if self._fixed else _HostRows.of(ids)
        try:
            yield
        finally:
            self._rows = None

    def row_id(self, digest: str) -> int:
        """What rows with this adapter have as their id; raises UnknownAdapter if it is not here."""
        if digest not in self._digests:
            raise UnknownAdapter("the adapter is not loaded", param="adapter")
        return self._digests[digest] + 1

    @property
    def modules(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of all that can be adapted, by the names of the checkpoint."""
        return {n: (p.rows, p.site.linear.in_features) for n, p in self._parts.items()}

    @property
    def reserved_bytes(self) -> int:
        """Of the slots of a device, full or empty."""
        halves = [half for site in self._sites for half in (site.a, site.b) if half is not None]
        return sum(half.nbytes for half in halves)

    def fitted(self, lora: Lora) -> Fitted:
        """Raises InvalidAdapter for one of another model, or of values that are not finite."""
        joined: dict[int, list[tuple[LoraRows, LoraPair]]] = {}
        for name, pair in lora.pairs.items():
            part = self._parts[self._root(lora) + name]
            _check_shape(name, part, pair)
            joined.setdefault(id(part.site), []).append((part, pair))
        return Fitted(lora.digest, [self._joined(parts) for parts in joined.values()])

    def _root(self, lora: Lora) -> str:
        for root in self._roots:
            if all(root + name in self._parts for name in lora.pairs):
                return root
        known = [name for name in lora.pairs if any(r + name in self._parts for r in self._roots)]
        unknown = sorted(lora.pairs.keys() - set(known)) or sorted(known)
        raise InvalidAdapter(
            f"the model has no linear module {', '.join(unknown[:_NAMED])} that can be adapted: the"
            " adapter is of another model"
        )

    def _joined(self, parts: Sequence[tuple[LoraRows, LoraPair]]) -> tuple[Site, Tensor, Tensor]:
        """The halves of a site: those of its parts below and beside each other."""
        site = parts[0][0].site
        exact = [(part, *pair.arrays()) for part, pair in parts]
        filled = sum(len(low) for _, low, _ in exact)
        rank = self.most_rank * site.parts if self._fixed else _whole(filled)
        a = torch.zeros(rank, site.linear.in_features)
        b = torch.zeros(site.linear.out_features, rank)
        at = 0
        for part, low, high in exact:
            a[at : at + len(low)] = torch.from_numpy(low)
            rows = slice(part.first, part.first + part.rows)
            b[rows, at : at + len(low)] = torch.from_numpy(high)
            at += len(low)
        dtype = _type_of(site.linear)
        return site, a.to(dtype), b.to(dtype)

    def put(self, slot: int, fitted: Fitted) -> None:
        """Have a slot hold this adapter and no other; returns when rows may use it."""
        self._forget(slot)
        there = {id(site): (a, b) for site, a, b in fitted.sites}
        with self._beside():
            for site in self._sites:
                _put(site, slot, there.get(id(site)))
            if (last := self._sites[-1].b) is not None:
                last[slot, 0, 0].item()  # all copies before it are done
        self._digests[fitted.digest] = slot

    def drop(self, slot: int) -> None:
        """Have a slot hold nothing; memory that was made for it goes."""
        self._forget(slot)
        for site in self._sites:
            site.known.pop(slot, None)

    def _forget(self, slot: int) -> None:
        for digest in [known for known, at in self._digests.items() if at == slot]:
            del self._digests[digest]


def _type_of(linear: Linear) -> torch.dtype:
    """In which it multiplies."""
    return linear.weight.dtype if isinstance(linear, nn.Linear) else linear.dtype


def _whole(rank: int) -> int:
    """With zeros: odd sizes are those at which libraries turn to other kernels."""
    return -(-rank // _RANK_TILE) * _RANK_TILE


def _check_shape(name: str, part: LoraRows, pair: LoraPair) -> None:
    wanted = part.rows, part.site.linear.in_features
    found = pair.b.shape[0], pair.a.shape[1]
    if wanted != found:
        raise InvalidAdapter(
            f"{name} is adapted for {found[1]} inputs and {found[0]} outputs; the model's has"
            f" {wanted[1]} and {wanted[0]}"
        )


def _put(site: Site, slot: int, halves: Halves | None) -> None:
    if site.a is not None and site.b is not None:
        for there, half in zip((site.a, site.b), halves or (None, None), strict=True):
            there[slot].zero_() if half is None else there[slot].copy_(half)
    elif halves is None:
        site.known.pop(slot, None)
    else:
        site.known[slot] = halves


class _DeviceRows:
    """All slots of all rows, in fixed shapes."""

    def __init__(self, ids: Tensor) -> None:
        self._ids = ids

    def add(self, site: Site, x: Tensor, out: Tensor) -> None:
        """Add to a site's product what the rows' adapters give; x, out: [rows, ..., size]."""
        assert site.a is not None
        assert site.b is not None
        flat = x.to(site.a.dtype).reshape(-1, x.shape[-1])
        ids = self._ids[:, None].expand(-1, len(flat) // len(self._ids)).reshape(-1)
        add_lora(flat, out.view(-1, out.shape[-1]), ids, site.a, site.b)


class _HostRows:
    """The rows of each adapter that a launch has."""

    def __init__(self, rows: int, groups: Mapping[int, Sequence[int]]) -> None:
        self._rows, self._groups = rows, groups
        self._places: dict[tuple[int, int], Tensor] = {}

    @classmethod
    def of(cls, ids: Tensor) -> _HostRows | None:
        """None where no row has an adapter."""
        groups: dict[int, list[int]] = {}
        for row, known in enumerate(ids.tolist()):
            if known:
                groups.setdefault(known - 1, []).append(row)
        return cls(len(ids), groups) if groups else None

    def add(self, site: Site, x: Tensor, out: Tensor) -> None:
        """Likewise."""
        flat, sums = x.reshape(-1, x.shape[-1]), out.view(-1, out.shape[-1])
        for slot in self._groups:
            if (halves := site.known.get(slot)) is not None:
                places = self._at(slot, len(flat) // self._rows)
                picked = pad_rows(flat.index_select(0, places))
                added = nn.functional.linear(nn.functional.linear(picked, halves[0]), halves[1])
                sums.index_add_(0, places, added[: len(places)])

    def _at(self, slot: int, width: int) -> Tensor:
        """Where the slot's rows stand when each has `width` of them."""
        if (slot, width) not in self._places:
            rows = torch.tensor(self._groups[slot])[:, None] * width
            self._places[slot, width] = (rows + torch.arange(width)).view(-1)
        return self._places[slot, width]
