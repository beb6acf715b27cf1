"""Compile every kernel for a target, without a device. Run as a program, see test_compile.

Prints a line for each: case, bytes of shared memory, and bytes of a thread's own memory, which
registers were spilled to if it is not 0. In a process of its own, because Triton either interprets
or compiles. Arguments: a compute capability as 90 and the names of cases, all of them if there are
none; or --list and a target.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ttscommon.engine.kernels import blocks_triton, experts_triton, few_rows_triton, lora_triton
from ttsfamilies.base.codec.kernels import behind_triton, convolve_triton, ring_triton
from ttsfamilies.base.kernels import (
    attention_triton,
    cache_triton,
    frame_triton,
    slots_triton,
    steps_triton,
)
from ttsfamilies.base.kernels.slots import NUMBERS, REALS
from ttsfamilies.base.sampling import draw_triton


def _of(*kinds: str) -> dict[str, str]:
    """Types by argument, of "TYPE: ARGUMENTS"."""
    pairs = (kind.split(": ") for kind in kinds)
    return {name: kind for kind, names in pairs for name in names.split()}


_SAMPLE: Final = _of(
    "*fp32: logits temperatures top_ps penalties",
    "*i64: seeds frames top_ks made ids_out",
    "*i1: seen suppressed finite_out",
    "i32: logits_stride seen_stride end least_frames vocabulary draw",
)
_ATTEND: Final = _of(
    "*bf16: q keys values out", "*i32: tables tiles", "fp32: scale", "i32: table_stride"
)
_STEP: Final = _of(
    "*bf16: q k v keys values out q_weight k_weight",
    "*fp32: mixed_out stats_out cosines sines",
    "*i32: tables",
    "*i64: positions",
    "fp32: scale eps",
    "i32: table_stride q_row k_row v_row angle_rows angle_stride",
)
_COMBINE: Final = _of("*fp32: mixed_in stats_in", "*bf16: out")
_NORM: Final = _of("*bf16: x added factors weight summed_out normed_out", "fp32: eps")
_ROTATE: Final = _of(
    "*bf16: x weight out",
    "*fp32: cosines sines",
    "i32: row_stride angle_rows angle_stride",
    "fp32: eps",
)
_ROTATE_STORE: Final = _of(
    "*bf16: product q_out keys values q_weight k_weight",
    "*fp32: cosines sines",
    "*i64: places",
    "i32: row_stride angle_rows angle_stride",
    "fp32: eps",
)
_FRAME: Final = _of(
    "*fp32: q k v keys values q_weight k_weight cosines sines",
    "*bf16: out",
    "i32: filled cache_row angle_row q_row q_new k_row k_new v_row v_new",
    "fp32: scale eps",
)
_BEHIND: Final = _of(
    "*fp32: x bias added added_bias alpha inverse summed_out out tails",
    "*i64: slots lengths",
    "*i1: fresh",
    "i32: channels steps rate x_row x_channel added_row added_channel",
)
_RING: Final = _of(
    "*fp32: q k v keys values out",
    "*i64: slots positions lengths",
    "fp32: scale",
    "i32: slot_stride k_row k_step v_row v_step",
)
_CONVOLVE: Final = _of("*fp32: x weight out", "i32: columns steps length dilation")
_DOWN: Final = _of("*i64: ids", "*fp32: low_out", "i32: rows")
_UP: Final = _of("*fp32: low", "*i64: ids", "i32: rows")
_TILES: Final = _of("*i64: order", "*i32: tile_expert tile_first tile_stop")
_RISE: Final = {**_of("*bf16: x gate up inner"), **_TILES}
_FALL: Final = {**_of("*bf16: inner down out"), **_TILES}
# Of Qwen3-Omni's talker.
_OMNI: Final = {"SIZE": 1024, "HIDDEN": 384, "TILE": 16, "INPUTS": 64, "OUTPUTS": 64}
_FEW: Final = _of(
    "*bf16: x weight bias norm added factors out",
    "*i64: ids",
    "*fp32: scales",
    "i32: rows",
    "fp32: eps",
)
_FEW_FLOAT8: Final = {**_FEW, "weight": "*fp8e4nv"}


def _few(rows: int, inputs: int, outputs: int, columns: int, has: str) -> dict[str, Any]:
    around = ("HAS_NORM", "HAS_ADDED", "HAS_FACTORS", "GATED")
    switches = ("HAS_BIAS", "HAS_IDS", "HAS_SCALES", *around)
    sizes = {"INPUTS": inputs, "OUTPUTS": outputs, "ROWS": rows, "COLUMNS": columns, "BLOCK": 128}
    return {**sizes, "PRECISION": None, **{name: name in has.split() for name in switches}}


_EMBED: Final = _of("*i64: codes slots", "*bf16: first others out", "i32: codes_stride")
_EMBEDDED: Final = {"SIZE": 2048, "CODEBOOKS": 16, "DIM": 2048, "BLOCK": 512}
_TEXT: Final = _of(
    "*i64: slots told known complete text_out use_out",
    "*i32: text",
    "i32: stride text_stride tokens pad",
)
_SETTINGS: Final = _of(
    f"*i64: slots numbers_out {' '.join(NUMBERS)}",
    f"*fp32: reals_out {' '.join(REALS)}",
    "*u8: seen",
    "*i1: seen_out",
    "i32: rows stride real_stride seen_stride vocabulary",
)
_MOVED: Final = _of(
    "*i64: slots use codes state_codes frame told over gained_out",
    "*i1: samples ended_out bad_out",
    "*fp32: logits",
    "*u8: seen padded_out",
    "*i16: codes_out",
    "i32: stride codes_stride seen_stride end vocabulary",
)
_ANGLES: Final = _of("*i64: positions", "*fp32: frequencies cosines sines")
_LORA: Final = {"RANK": 192, "TILE": 16, "RANKS": 16}
_PREDICTOR: Final = {"KV_HEADS": 8, "GROUP": 2, "HALF": 64, "BLOCK": 64, "POSITIONS": 16}
_TURNED: Final = {"HAS_NORM": True, "HAS_ROTATION": True}
_AS_IT_IS: Final = dict.fromkeys(_TURNED, False)
_WINDOWED: Final = {"HAS_NORM": False, "HAS_ROTATION": True, "SLIDING_WINDOW": 512}
_SUMS: Final = {"HAS_BIAS": True, "HAS_ADDED": True, "HAS_SNAKE": True, "HAS_SUM": True}
_TAIL: Final = {**_SUMS, "TAIL": 54, "TAIL_BLOCK": 64, "CHANNELS": 1, "STEPS": 1024}
_CHANNELS: Final = {"INPUTS": 768, "OUTPUTS": 768, "TAPS": 7}
_CONVOLVED: Final = {"INPUTS_BLOCK": 32, "OUTPUTS_BLOCK": 64, "STEPS_BLOCK": 64}
_CODEC: Final = {"HEADS": 16, "KV_HEADS": 16, "DIM": 64, "DIM_BLOCK": 64, "GROUP": 1}
_RINGS: Final = {"STEPS": 16, "STEPS_BLOCK": 16, "RING": 71, "RING_BLOCK": 32}
_QWEN: Final = {"HEADS": 16, "KV_HEADS": 8, "DIM": 128, "DIM_BLOCK": 128, "PAGE": 16, "KEYS": 32}
_FISH: Final = {**_QWEN, "HEADS": 32}
_PARTS: Final = {"DIM": 128, "DIM_BLOCK": 128, "PARTS": 32, "PARTS_BLOCK": 32}
_ALL: Final = {"HAS_RULES": True, "HAS_TOP_K": True, "HAS_TOP_P": True}
_NONE: Final = dict.fromkeys(_ALL, False)
_WIDE: Final = {"SIZE": 2048, "BLOCK": 2048}
_ADDED: Final = {"HAS_ADDED": True, "HAS_FACTORS": True}
_PLAIN: Final = dict.fromkeys(_ADDED, False)
_HALVES: Final = {"HALF": 64, "BLOCK": 64}


def _attend(rows: int, heads: Mapping[str, int] = _QWEN) -> dict[str, Any]:
    return {**heads, "ROWS": rows, "SLIDING_WINDOW": 0, "PRECISION": None}


def _step(
    parts: int, heads: Mapping[str, int] = _QWEN, told: Mapping[str, Any] = _TURNED
) -> dict[str, Any]:
    return {**_attend(16, heads), "PARTS": parts, **told}


# Beside "N rows, ": what is computed, its types, inputs, outputs and columns, and switches.
_PRODUCTS: Final = (
    ("norm and product", {**_FEW, "out": "*fp32"}, (1024, 4096, 32), "HAS_NORM"),
    ("product and residual", _FEW, (6144, 2048, 16), "HAS_ADDED HAS_FACTORS HAS_BIAS"),
    ("product of a table", _FEW, (2048, 1024, 16), "HAS_IDS HAS_BIAS"),
    ("norm and gate", _FEW, (2048, 6144, 32), "HAS_NORM GATED"),
    ("float8, norm and gate", _FEW_FLOAT8, (2048, 6144, 32), "HAS_NORM GATED HAS_SCALES"),
    (
        *("float8 and residual", _FEW_FLOAT8, (6144, 2048, 16)),
        "HAS_ADDED HAS_FACTORS HAS_BIAS HAS_SCALES",
    ),
)
# The sizes of Qwen3-TTS 1.7B, with every switch on and off; attention with 32 query heads too.
CASES: Final = (
    ("sample", draw_triton.sample_rows, _SAMPLE, {**_ALL, "BLOCK": 4096}),
    ("draw", draw_triton.sample_rows, _SAMPLE, {**_NONE, "BLOCK": 2048}),
    ("step, short", steps_triton.attend_rows, _STEP, _step(1)),
    ("step, long", steps_triton.attend_rows, _STEP, _step(16)),
    ("step, sliding window", steps_triton.attend_rows, _STEP, _step(1, told=_WINDOWED)),
    ("step, 32 heads", steps_triton.attend_rows, _STEP, _step(1, _FISH)),
    ("step, 32 heads, long", steps_triton.attend_rows, _STEP, _step(32, _FISH)),
    ("step, rotated before", steps_triton.attend_rows, _STEP, _step(1, told=_AS_IT_IS)),
    ("attend, prompt", attention_triton.attend_tiles, _ATTEND, _attend(32)),
    ("attend, 32 heads, prompt", attention_triton.attend_tiles, _ATTEND, _attend(64, _FISH)),
    ("combine", steps_triton.combine_parts, _COMBINE, _PARTS),
    ("frame, 2 new", frame_triton.attend_frames, _FRAME, {**_PREDICTOR, **_TURNED, "NEW": 2}),
    ("frame, 1 new", frame_triton.attend_frames, _FRAME, {**_PREDICTOR, **_TURNED, "NEW": 1}),
    ("tail, snake", behind_triton.put_behind_tails, _BEHIND, _TAIL),
    ("ring", ring_triton.attend_rings, _RING, {**_CODEC, **_RINGS}),
    ("embedding", slots_triton.embed_rows, _EMBED, {**_EMBEDDED, "HAS_SLOTS": False}),
    ("embedding of slots", slots_triton.embed_rows, _EMBED, {**_EMBEDDED, "HAS_SLOTS": True}),
    ("text of slots", slots_triton.text_rows, _TEXT, {}),
    ("settings of slots", slots_triton.settings_rows, _SETTINGS, {"BLOCK": 4096}),
    (
        *("frames of slots", slots_triton.move_rows_on, _MOVED),
        {"CODEBOOKS": 16, "CODES_BLOCK": 16, "BLOCK": 4096},
    ),
    ("angles", blocks_triton.angle_rows, _ANGLES, _HALVES),
    ("convolution", convolve_triton.convolve_steps, _CONVOLVE, {**_CHANNELS, **_CONVOLVED}),
    ("add, norm", blocks_triton.add_norm_rows, _NORM, {**_WIDE, **_ADDED}),
    ("norm", blocks_triton.add_norm_rows, _NORM, {**_WIDE, **_PLAIN}),
    ("swiglu", blocks_triton.swiglu_rows, _of("*bf16: gate_up out"), {"SIZE": 6144, "BLOCK": 1024}),
    (
        *("norm, rotate", blocks_triton.rotate_heads, _ROTATE),
        {"HEADS": 16, **_HALVES, "HAS_NORM": True},
    ),
    ("experts' rise", experts_triton.expert_rise, _RISE, {**_OMNI, "FEW": 6}),
    ("experts' fall", experts_triton.expert_fall, _FALL, _OMNI),
    (
        *("norm, rotate, store", cache_triton.rotate_store_heads, _ROTATE_STORE),
        {"HEADS": 16, "KV_HEADS": 8, **_HALVES, "HAS_NORM": True},
    ),
    *(
        (f"{rows} rows, {what}", few_rows_triton.multiply_rows, told, _few(rows, *sizes, has))
        for what, told, sizes, has in _PRODUCTS
        for rows in (16, 32, 64)
    ),
    *(
        (f"adapters {part}, {kind}", kernel, {**told, **_of(f"{kind}: {halves}")}, sizes)
        for kind in ("*bf16", "*fp32")
        for part, kernel, told, halves, sizes in (
            ("down", lora_triton.lora_down, _DOWN, "x a", {**_LORA, "SIZE": 2048, "INPUTS": 128}),
            ("up", lora_triton.lora_up, _UP, "b out", {**_LORA, "SIZE": 4096, "OUTPUTS": 64}),
        )
    ),
)


_FLOAT8_TARGET: Final = 89
# Of kernels that their callers give other warps or stages than there are by default.
_OPTIONS: Final = {"sample": {"num_warps": 8}, "convolution": {"num_stages": 2}}
# What a launch finds of pointers, and Triton then knows: memory is handed out so.
_ALIGNED: Final = [["tt.divisibility", 16]]
_TOOLS: Final = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def spilled(cubin: bytes) -> int:
    """Bytes of memory that each thread has for itself."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(_TOOLS / "cuobjdump"), "-res-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return max(int(size) for size in re.findall(r"(?:STACK|LOCAL):(\d+)", told))


def compiled_for(target: int) -> list[Any]:
    """The cases: float8 is unknown to devices before 8.9."""
    told = "*fp8e4nv"
    return [case for case in CASES if target >= _FLOAT8_TARGET or told not in case[2].values()]


def main(target: int, names: list[str]) -> None:
    device = GPUTarget("cuda", target, 32)
    for name, kernel, signature, constants in compiled_for(target):
        if names and name not in names:
            continue
        types = {**signature, **dict.fromkeys(constants, "constexpr")}
        ordered = {argument: types[argument] for argument in kernel.arg_names}
        pointers = [n for n, kind in enumerate(ordered.values()) if kind[0] == "*"]
        attributes = {(place,): _ALIGNED for place in pointers}
        source = ASTSource(kernel, ordered, constants, attributes)
        few = kernel is few_rows_triton.multiply_rows
        options = _OPTIONS.get(name)
        if few:
            warps = 8 if constants["ROWS"] == 64 else 4
            options = {"num_warps": warps, "num_stages": 3}
        compiled = triton.compile(source, device, options)
        own = spilled(compiled.asm["cubin"])
        print(f"{name} {compiled.metadata.shared} {own}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(name for name, *_ in compiled_for(int(sys.argv[2]))))
    else:
        main(int(sys.argv[1]), sys.argv[2:])
