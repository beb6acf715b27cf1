"""From a checkpoint's tensors to a network's parameters, by name.

A network states for each of its own parameters which published tensors it is made of. Loading
then names whatever is missing, surplus or of another shape; and the same statement says which
names and shapes a checkpoint of given sizes has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, ParamSpec, Protocol, Self, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, tensor_files
from ttscommon.engine.nn.decoder import DecoderConfig
from ttscommon.engine.nn.packed import Packer

_NAMED: Final = 4
_PLAIN: Final = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Source:
    """The published tensors that one parameter is made of, joined along the first dimension.

    rows: how many rows each of them contributes; empty: the parameter is one tensor as it is.
    stacked: each contributes one entry of a new first dimension instead. folded: they are the
    length and the direction of a weight-normed convolution's rows, or of what is alike along its
    dimension `by`. swapped: the second half of its rows is published in front of the first. turned:
    a matrix, stored with its inputs first. paired: (rows, size): so many first rows are heads of
    `size` channels, of which neighbours are rotated together; the parameter's are i, i + size / 2.
    """

    names: tuple[str, ...]
    rows: tuple[int, ...] = ()
    stacked: bool = False
    folded: bool = False
    swapped: bool = False
    turned: bool = False
    by: int = 0
    paired: tuple[int, int] = (0, 0)

    def shapes(self, whole: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """The shape of every published tensor, given the parameter's."""
        if self.stacked:
            return {name: tuple(whole[1:]) for name in self.names}
        if self.folded:
            length = tuple(size if at == self.by else 1 for at, size in enumerate(whole))
            return {self.names[0]: length, self.names[1]: tuple(whole)}
        if not self.rows:
            return {self.names[0]: tuple(reversed(whole) if self.turned else whole)}
        return {name: (rows, *whole[1:]) for name, rows in zip(self.names, self.rows, strict=True)}

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The parameter."""
        if self.folded:
            length, direction = (
                part.to(torch.promote_types(part.dtype, torch.float32)) for part in parts
            )
            others = tuple({0, 1, 2} - {self.by})
            return direction * (
                length / torch.linalg.vector_norm(direction, dim=others, keepdim=True)
            )
        if self.swapped:
            return torch.cat(parts[0].chunk(2)[::-1])
        if self.turned:
            return parts[0].T
        if self.paired[0]:
            return _halved(parts[0], *self.paired)
        return torch.stack(list(parts)) if self.stacked else torch.cat(list(parts))


def _halved(x: Tensor, rows: int, size: int) -> Tensor:
    """Heads whose channels are rotated as neighbours, in the order that rotates halves."""
    heads = x[:rows].unflatten(0, (-1, size // 2, 2))
    return torch.cat((heads.transpose(1, 2).flatten(0, 2), x[rows:]))


Sources = Mapping[str, Source]
Net = TypeVar("Net", bound=nn.Module)
P = ParamSpec("P")
Where = str | torch.device


def same(name: str) -> Source:
    """A parameter that is published as it is."""
    return Source((name,))


_NUMBER: Final = re.compile(r"\*([+-]\d+)?")


def named(
    net: nn.Module, places: Mapping[str, str], ours: str = "", theirs: str = ""
) -> dict[str, Source]:
    """Parameters that are published as they are, each by the first of these places it lies in.

    places: what files call a module or a parameter, by its name here; `*` is a number, the same in
    both, or with `*+1` the next. ours, theirs: what all names begin with besides, dot included.
    """
    rules = [(_place(mine), other) for mine, other in places.items()]
    moved = ((name, _moved(name, rules)) for name in net.state_dict())
    return {ours + name: same(theirs + place) for name, place in moved if place is not None}


def relocated(name: str, places: Mapping[str, str]) -> str:
    """The name that a parameter of one of these places has, as it is elsewhere; see `named`."""
    return _moved(name, [(_place(old), new) for old, new in places.items()]) or name


def _place(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\*", r"(\d+)") + r"(?![^.])")


def _moved(name: str, rules: Iterable[tuple[re.Pattern[str], str]]) -> str | None:
    for place, other in rules:
        if lies := place.match(name):
            return _numbered(other, lies.groups()) + name[lies.end() :]
    return None


def _numbered(place: str, numbers: Sequence[str]) -> str:
    left = iter(numbers)
    return _NUMBER.sub(lambda one: str(int(next(left)) + int(one[1] or 0)), place)


# Length and direction: of torch's parametrisation, and of the one before it.
PAIRS: Final = (
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
    ("weight_g", "weight_v"),
)


def folded(stated: Sources, pair: tuple[str, str]) -> dict[str, Source]:
    """The same with every weight as its length and direction, which `pair` names."""
    return {
        name: Source(
            tuple(one.names[0].removesuffix("weight") + part for part in pair), folded=True
        )
        if name.endswith("weight")
        else one
        for name, one in stated.items()
    }


def as_stored(names: Iterable[str], stored: Container[str], theirs: str = "") -> dict[str, Source]:
    """Parameters by their own names behind `theirs`; weights are of length and direction where the
    files have them so. stored: what the files have.
    """
    found = {name: same(theirs + name) for name in names}
    for pair in PAIRS:
        parted = folded(found, pair)
        found |= {name: one for name, one in parted.items() if one.names[0] in stored}
    return found


class Tensors(Protocol):
    """Published tensors by their names; `where` is the file that holds one, or any of them."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...
    def read(self, name: str) -> Tensor: ...
    def where(self, name: str) -> Path: ...


class Subset:
    """The tensors of a checkpoint whose names begin so, but for those that end `without`."""

    def __init__(
        self, shards: Shards, begins: tuple[str, ...], without: tuple[str, ...] = ()
    ) -> None:
        self.shapes = {
            name: shape
            for name, shape in shards.shapes.items()
            if name.startswith(begins) and not name.endswith(without)
        }
        self.read, self.where = shards.read, shards.where


class Shards:
    """The tensors of a checkpoint folder, read one by one."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Raises CheckpointError for a file that is truncated or no safetensors file."""
        self._files: dict[str, Path] = {}
        self._opened: dict[Path, Any] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for path in files:
            for name, shape in _listed(path):
                self._files[name], self._shapes[name] = path, shape

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The tensors of a checkpoint folder; raises CheckpointError."""
        return cls(tensor_files(folder))

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def read(self, name: str) -> Tensor:
        """One tensor, as stored."""
        tensor: Tensor = self._file(name).get_tensor(name)
        if tensor.dtype not in _PLAIN:
            raise CheckpointError(
                f"{self._files[name]}: {name} is {tensor.dtype}: quantised checkpoints are not"
                " served, take the bfloat16 one"
            )
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"{self._files[name]}: {name} holds values that are no finite numbers: the file is"
                " damaged, or training failed"
            )
        return tensor

    def rows(self, name: str, indices: Sequence[int]) -> Tensor:
        """Some rows of a tensor, without reading the others; raises CheckpointError."""
        with safe_open(self._files[name], "pt") as file:
            part = file.get_slice(name)
            found = torch.cat([part[index : index + 1] for index in indices])
        if found.dtype not in _PLAIN or not torch.isfinite(found).all():
            raise CheckpointError(f"{self._files[name]}: rows of {name} are no finite numbers")
        return found

    def ids(self, name: str) -> Tensor:
        """A tensor of whole numbers, flat, int64."""
        return torch.as_tensor(self._file(name).get_tensor(name)).reshape(-1).long()

    def _file(self, name: str) -> Any:
        """The mapped file that holds a tensor, opened once: its head names all tensors."""
        path = self._files[name]
        if path not in self._opened:
            self._opened[path] = safe_open(path, "pt")
        return self._opened[path]

    def where(self, name: str) -> Path:
        """The file that holds a tensor, or any file of the checkpoint."""
        return self._files.get(name) or next(iter(self._files.values()), Path())


def _listed(path: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    try:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 -- the handle is no mapping
                yield name, tuple(file.get_slice(name).get_shape())
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is truncated or damaged ({error}): download it again"
        ) from error


def fill(net: nn.Module, sources: Sources, shards: Tensors, *, others: Sequence[str] = ()) -> None:
    """Copy a checkpoint into `net`, cast to the types that its parameters have, and pack what is to
    be packed.

    others: beginnings of names that belong to other modules. Raises CheckpointError, which names
    what is missing, surplus or of a wrong shape.
    """
    check(net, sources, shards, others=others)
    state, packer = net.state_dict(), Packer(net)
    with torch.no_grad():
        for module, keys in groupby(list(state), lambda key: key.rpartition(".")[0]):
            for key in keys:
                parts = [shards.read(name) for name in sources[key].names]
                state.pop(key).copy_(sources[key].join(parts))
            packer.filled(module)


def unfilled(kind: Callable[P, Net], *args: P.args, **kwargs: P.kwargs) -> Net:
    """A network without memory, made of these arguments."""
    with torch.device("meta"):
        return kind(*args, **kwargs)


def filled(
    net: Net,
    sources: Sources,
    shards: Tensors,
    *,
    others: Sequence[str] = (),
    device: Where = "cpu",
) -> Net:
    """A network without memory (on "meta") with a checkpoint's weights, to infer with; see `fill`.

    Names and shapes are checked before memory is asked for.
    """
    check(net, sources, shards, others=others)
    net.to_empty(device=torch.device(device))
    fill(net, sources, shards, others=others)
    return net.eval().requires_grad_(False)


def check(net: nn.Module, sources: Sources, shards: Tensors, *, others: Sequence[str] = ()) -> None:
    """What `fill` checks of names and shapes; `net` may have no memory yet."""
    state = net.state_dict()
    if unstated := state.keys() ^ sources.keys():
        raise ValueError(f"the sources do not fit the network: {sorted(unstated)[:_NAMED]}")
    _check_names(sources, shards, others)
    for key, parameter in state.items():
        _check_shapes(sources[key].shapes(parameter.shape), shards)


def _check_names(sources: Sources, shards: Tensors, others: Sequence[str]) -> None:
    wanted = [name for source in sources.values() for name in source.names]
    if missing := [name for name in wanted if name not in shards.shapes]:
        raise CheckpointError(
            f"{shards.where('').parent} lacks {_some(missing)}: its config.json describes another"
            " model, or a file was left out"
        )
    known = set(wanted)
    surplus = [n for n in shards.shapes if n not in known and not n.startswith(tuple(others))]
    if surplus:
        raise CheckpointError(
            f"{shards.where(surplus[0]).parent} has {_some(surplus)}, for which its config.json"
            " gives no use"
        )


def _check_shapes(wanted: Mapping[str, tuple[int, ...]], shards: Tensors) -> None:
    for name, shape in wanted.items():
        if shards.shapes[name] != shape:
            raise CheckpointError(
                f"{shards.where(name)}: {name} is {list(shards.shapes[name])}, but config.json"
                f" makes it {list(shape)}"
            )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(sorted(names)[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def published_shapes(net: nn.Module, sources: Sources) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that a checkpoint for `net` has."""
    found: dict[str, tuple[int, ...]] = {}
    for key, parameter in net.state_dict().items():
        found.update(sources[key].shapes(parameter.shape))
    return found


def digest(modules: Iterable[nn.Module]) -> str:
    """Hexadecimal SHA-256 of networks: two that agree compute the same, on one machine."""
    hashed = hashlib.sha256()
    for module in modules:
        for name, tensor in sorted(module.state_dict().items()):
            hashed.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
            flat = tensor.detach().cpu().reshape(-1)
            hashed.update(flat.view(torch.uint8).numpy())
    return hashed.hexdigest()


def decoder_sources(c: DecoderConfig, ours: str, theirs: str) -> dict[str, Source]:
    """A `Decoder` whose checkpoint has the names that transformers gives to such stacks.

    ours, theirs: what the names begin with, dot included.
    """
    found: dict[str, Source] = {}
    for layer in range(c.layers):
        block = _block_sources(c, f"{theirs}layers.{layer}.")
        found |= {f"{ours}blocks.{layer}.{key}": source for key, source in block.items()}
    if c.final_norm:
        found |= _norm_sources(c, f"{ours}norm", f"{theirs}norm")
    return found


def _norm_sources(c: DecoderConfig, ours: str, theirs: str) -> dict[str, Source]:
    parts = ("weight",) if c.norm == "rms" else ("weight", "bias")
    return {f"{ours}.{part}": same(f"{theirs}.{part}") for part in parts}


def _block_sources(c: DecoderConfig, theirs: str) -> dict[str, Source]:
    found = _norm_sources(c, "attention_norm", f"{theirs}input_layernorm")
    found |= _norm_sources(c, "mlp_norm", f"{theirs}post_attention_layernorm")
    found |= _attention_sources(c, f"{theirs}self_attn.")
    found |= _mlp_sources(c, f"{theirs}mlp.")
    if c.layer_scale:
        found["attention_scale.weight"] = same(f"{theirs}self_attn_layer_scale.scale")
        found["mlp_scale.weight"] = same(f"{theirs}mlp_layer_scale.scale")
    return found


def _attention_sources(c: DecoderConfig, theirs: str) -> dict[str, Source]:
    rows = tuple(heads * c.head_dim for heads in (c.heads, c.kv_heads, c.kv_heads))
    found = {"attention.out.weight": same(f"{theirs}o_proj.weight")}
    for part in ("weight", "bias") if c.qkv_bias else ("weight",):
        names = tuple(f"{theirs}{which}_proj.{part}" for which in "qkv")
        found[f"attention.qkv.{part}"] = Source(names, rows)
    if c.out_bias:
        found["attention.out.bias"] = same(f"{theirs}o_proj.bias")
    if c.qk_norm:
        found["attention.q_norm.weight"] = same(f"{theirs}q_norm.weight")
        found["attention.k_norm.weight"] = same(f"{theirs}k_norm.weight")
    return found


def _mlp_sources(c: DecoderConfig, theirs: str) -> dict[str, Source]:
    if c.mlp != "swiglu":
        return {
            "mlp.up.weight": same(f"{theirs}fc1.weight"),
            "mlp.down.weight": same(f"{theirs}fc2.weight"),
        }
    names = (f"{theirs}gate_proj.weight", f"{theirs}up_proj.weight")
    return {
        "mlp.gate_up.weight": Source(names, (c.hidden, c.hidden)),
        "mlp.down.weight": same(f"{theirs}down_proj.weight"),
    }
