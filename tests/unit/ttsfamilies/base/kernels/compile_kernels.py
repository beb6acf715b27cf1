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

_IDS: Final = {"ids_out": "*i64", "finite_out": "*i1", "vocabulary": "i32", "draw": "i32"}
_SAMPLE: Final = {
    "logits": "*fp32",
    "seeds": "*i64",
    "frames": "*i64",
    "temperatures": "*fp32",
    "top_ks": "*i64",
    "top_ps": "*fp32",
    "seen": "*i1",
    "made": "*i64",
    "penalties": "*fp32",
    "suppressed": "*i1",
    "logits_stride": "i32",
    "seen_stride": "i32",
    "end": "i32",
    "least_frames": "i32",
    **_IDS,
}
_ATTEND: Final = {
    **dict.fromkeys(("q", "keys", "values", "out"), "*bf16"),
    "tables": "*i32",
    "tiles": "*i32",
    "scale": "fp32",
    "table_stride": "i32",
}
_STEP: Final = {
    **dict.fromkeys(("q", "k", "v", "keys", "values", "out", "q_weight", "k_weight"), "*bf16"),
    **dict.fromkeys(("mixed_out", "stats_out", "cosines", "sines"), "*fp32"),
    "tables": "*i32",
    "positions": "*i64",
    **dict.fromkeys(("scale", "eps"), "fp32"),
    **dict.fromkeys(("table_stride", "q_row", "k_row", "v_row"), "i32"),
    **dict.fromkeys(("angle_rows", "angle_stride"), "i32"),
}
_COMBINE: Final = {"mixed_in": "*fp32", "stats_in": "*fp32", "out": "*bf16"}
_NORM: Final = {
    **dict.fromkeys(("x", "added", "factors", "weight", "summed_out", "normed_out"), "*bf16"),
    "eps": "fp32",
}
_ROTATE: Final = {
    "x": "*bf16",
    "weight": "*bf16",
    "cosines": "*fp32",
    "sines": "*fp32",
    "out": "*bf16",
    **dict.fromkeys(("row_stride", "angle_rows", "angle_stride"), "i32"),
    "eps": "fp32",
}
_ROTATE_STORE: Final = {
    **dict.fromkeys(("product", "q_out", "keys", "values"), "*bf16"),
    **dict.fromkeys(("q_weight", "k_weight"), "*bf16"),
    **dict.fromkeys(("cosines", "sines"), "*fp32"),
    "places": "*i64",
    **dict.fromkeys(("row_stride", "angle_rows", "angle_stride"), "i32"),
    "eps": "fp32",
}
_FRAME: Final = {
    **dict.fromkeys(("q", "k", "v", "keys", "values"), "*fp32"),
    **dict.fromkeys(("q_weight", "k_weight", "cosines", "sines"), "*fp32"),
    "out": "*bf16",
    **dict.fromkeys(("filled", "cache_row", "angle_row"), "i32"),
    **dict.fromkeys((f"{one}_{of}" for one in "qkv" for of in ("row", "new")), "i32"),
    **dict.fromkeys(("scale", "eps"), "fp32"),
}
_BEHIND: Final = {
    **dict.fromkeys(("x", "bias", "added", "added_bias", "alpha", "inverse"), "*fp32"),
    **dict.fromkeys(("summed_out", "out", "tails"), "*fp32"),
    "slots": "*i64",
    "fresh": "*i1",
    "lengths": "*i64",
    **dict.fromkeys(("channels", "steps", "rate", "x_row", "x_channel"), "i32"),
    **dict.fromkeys(("added_row", "added_channel"), "i32"),
}
_RING: Final = {
    **dict.fromkeys(("q", "k", "v", "keys", "values", "out"), "*fp32"),
    **dict.fromkeys(("slots", "positions", "lengths"), "*i64"),
    "scale": "fp32",
    **dict.fromkeys(("slot_stride", "k_row", "k_step", "v_row", "v_step"), "i32"),
}
_CONVOLVE: Final = {
    **dict.fromkeys(("x", "weight", "out"), "*fp32"),
    **dict.fromkeys(("columns", "steps", "length", "dilation"), "i32"),
}
_DOWN: Final = {"ids": "*i64", "low_out": "*fp32", "rows": "i32"}
_UP: Final = {"low": "*fp32", "ids": "*i64", "rows": "i32"}
_TILES: Final = dict.fromkeys(("tile_expert", "tile_first", "tile_stop"), "*i32")
_RISE: Final = {
    **dict.fromkeys(("x", "gate", "up", "inner"), "*bf16"),
    "order": "*i64",
    **_TILES,
}
_FALL: Final = {**dict.fromkeys(("inner", "down", "out"), "*bf16"), "order": "*i64", **_TILES}
# Of Qwen3-Omni's talker.
_OMNI: Final = {"SIZE": 1024, "HIDDEN": 384, "TILE": 16, "INPUTS": 64, "OUTPUTS": 64}
_FEW: Final = {
    **dict.fromkeys(("x", "weight", "bias", "norm", "added", "factors", "out"), "*bf16"),
    "ids": "*i64",
    "scales": "*fp32",
    "rows": "i32",
    "eps": "fp32",
}
_FEW_FLOAT8: Final = {**_FEW, "weight": "*fp8e4nv"}


def _few(rows: int, inputs: int, outputs: int, columns: int, *has: str) -> dict[str, Any]:
    around = ("HAS_NORM", "HAS_ADDED", "HAS_FACTORS", "GATED")
    switches = ("HAS_BIAS", "HAS_IDS", "HAS_SCALES", *around)
    sizes = {"INPUTS": inputs, "OUTPUTS": outputs, "ROWS": rows, "COLUMNS": columns, "BLOCK": 128}
    return {**sizes, "PRECISION": None, **{name: name in has for name in switches}}


_EMBED: Final = {
    **dict.fromkeys(("codes", "slots"), "*i64"),
    **dict.fromkeys(("first", "others", "out"), "*bf16"),
    "codes_stride": "i32",
}
_EMBEDDED: Final = {"SIZE": 2048, "CODEBOOKS": 16, "DIM": 2048, "BLOCK": 512}
_TEXT: Final = {
    **dict.fromkeys(("slots", "told", "known", "complete", "text_out", "use_out"), "*i64"),
    "text": "*i32",
    **dict.fromkeys(("stride", "text_stride", "tokens", "pad"), "i32"),
}
_SETTINGS: Final = {
    **dict.fromkeys(("slots", *NUMBERS, "numbers_out"), "*i64"),
    **dict.fromkeys((*REALS, "reals_out"), "*fp32"),
    "seen": "*u8",
    "seen_out": "*i1",
    **dict.fromkeys(("rows", "stride", "real_stride", "seen_stride", "vocabulary"), "i32"),
}
_MOVED: Final = {
    **dict.fromkeys(("slots", "use", "codes", "state_codes", "frame", "told", "over"), "*i64"),
    **dict.fromkeys(("samples", "ended_out", "bad_out"), "*i1"),
    "logits": "*fp32",
    "seen": "*u8",
    "codes_out": "*i16",
    "padded_out": "*u8",
    "gained_out": "*i64",
    **dict.fromkeys(("stride", "codes_stride", "seen_stride", "end", "vocabulary"), "i32"),
}
_ANGLES: Final = {
    "positions": "*i64",
    **dict.fromkeys(("frequencies", "cosines", "sines"), "*fp32"),
}
_LORA: Final = {"RANK": 192, "TILE": 16, "RANKS": 16}
_PREDICTOR: Final = {"KV_HEADS": 8, "GROUP": 2, "HALF": 64, "BLOCK": 64, "POSITIONS": 16}
_TURNED: Final = {"HAS_NORM": True, "HAS_ROTATION": True}
_AS_IT_IS: Final = dict.fromkeys(_TURNED, False)
_REACHING: Final = {"HAS_NORM": False, "HAS_ROTATION": True, "REACH": 512}
_SUMS: Final = {"HAS_BIAS": True, "HAS_ADDED": True, "HAS_SNAKE": True, "HAS_SUM": True}
_CONVOLUTION: Final = {
    "INPUTS": 768,
    "OUTPUTS": 768,
    "TAPS": 7,
    "INPUTS_BLOCK": 32,
    "OUTPUTS_BLOCK": 64,
    "STEPS_BLOCK": 64,
}
_CODEC: Final = {"HEADS": 16, "KV_HEADS": 16, "DIM": 64, "DIM_BLOCK": 64, "GROUP": 1}
_QWEN: Final = {"HEADS": 16, "KV_HEADS": 8, "DIM": 128, "DIM_BLOCK": 128, "PAGE": 16, "KEYS": 32}
_FISH: Final = {**_QWEN, "HEADS": 32}
_ALL: Final = {"HAS_RULES": True, "HAS_TOP_K": True, "HAS_TOP_P": True}
_NONE: Final = dict.fromkeys(_ALL, False)


def _attend(rows: int, heads: Mapping[str, int] = _QWEN) -> dict[str, Any]:
    return {**heads, "ROWS": rows, "REACH": 0, "PRECISION": None}


def _step(
    parts: int, heads: Mapping[str, int] = _QWEN, told: Mapping[str, Any] = _TURNED
) -> dict[str, Any]:
    return {**_attend(16, heads), "PARTS": parts, **told}


# The sizes of Qwen3-TTS 1.7B, with every switch on and off; attention with 32 query heads too.
CASES: Final = (
    ("sample", draw_triton.sample_rows, _SAMPLE, {**_ALL, "BLOCK": 4096}),
    ("draw", draw_triton.sample_rows, _SAMPLE, {**_NONE, "BLOCK": 2048}),
    ("step, short", steps_triton.attend_rows, _STEP, _step(1)),
    ("step, long", steps_triton.attend_rows, _STEP, _step(16)),
    ("step, within reach", steps_triton.attend_rows, _STEP, _step(1, told=_REACHING)),
    ("step, 32 heads", steps_triton.attend_rows, _STEP, _step(1, _FISH)),
    ("step, 32 heads, long", steps_triton.attend_rows, _STEP, _step(32, _FISH)),
    ("step, rotated before", steps_triton.attend_rows, _STEP, _step(1, told=_AS_IT_IS)),
    ("attend, prompt", attention_triton.attend_tiles, _ATTEND, _attend(32)),
    ("attend, 32 heads, prompt", attention_triton.attend_tiles, _ATTEND, _attend(64, _FISH)),
    (
        *("combine", steps_triton.combine_parts, _COMBINE),
        {"DIM": 128, "DIM_BLOCK": 128, "PARTS": 32, "PARTS_BLOCK": 32},
    ),
    (
        "frame, two positions",
        frame_triton.attend_frames,
        _FRAME,
        {**_PREDICTOR, **_TURNED, "NEW": 2},
    ),
    (
        "frame, one position",
        frame_triton.attend_frames,
        _FRAME,
        {**_PREDICTOR, **_TURNED, "NEW": 1},
    ),
    (
        *("tail, snake", behind_triton.put_behind_tails, _BEHIND),
        {**_SUMS, "TAIL": 54, "TAIL_BLOCK": 64, "CHANNELS": 1, "STEPS": 1024},
    ),
    (
        *("ring", ring_triton.attend_rings, _RING),
        {**_CODEC, "STEPS": 16, "STEPS_BLOCK": 16, "RING": 71, "RING_BLOCK": 32},
    ),
    ("embedding", slots_triton.embed_rows, _EMBED, {**_EMBEDDED, "HAS_SLOTS": False}),
    ("embedding of slots", slots_triton.embed_rows, _EMBED, {**_EMBEDDED, "HAS_SLOTS": True}),
    ("text of slots", slots_triton.text_rows, _TEXT, {}),
    ("settings of slots", slots_triton.settings_rows, _SETTINGS, {"BLOCK": 4096}),
    (
        *("frames of slots", slots_triton.move_rows_on, _MOVED),
        {"CODEBOOKS": 16, "CODES_BLOCK": 16, "BLOCK": 4096},
    ),
    ("angles", blocks_triton.angle_rows, _ANGLES, {"HALF": 64, "BLOCK": 64}),
    ("convolution", convolve_triton.convolve_steps, _CONVOLVE, _CONVOLUTION),
    (
        *("add, norm", blocks_triton.add_norm_rows, _NORM),
        {"SIZE": 2048, "BLOCK": 2048, "HAS_ADDED": True, "HAS_FACTORS": True},
    ),
    (
        *("norm", blocks_triton.add_norm_rows, _NORM),
        {"SIZE": 2048, "BLOCK": 2048, "HAS_ADDED": False, "HAS_FACTORS": False},
    ),
    (
        *("swiglu", blocks_triton.swiglu_rows, {"gate_up": "*bf16", "out": "*bf16"}),
        {"SIZE": 6144, "BLOCK": 1024},
    ),
    (
        *("norm, rotate", blocks_triton.rotate_heads, _ROTATE),
        {"HEADS": 16, "HALF": 64, "BLOCK": 64, "HAS_NORM": True},
    ),
    ("experts' rise", experts_triton.expert_rise, _RISE, {**_OMNI, "FEW": 6}),
    ("experts' fall", experts_triton.expert_fall, _FALL, _OMNI),
    (
        *("norm, rotate, store", cache_triton.rotate_store_heads, _ROTATE_STORE),
        {"HEADS": 16, "KV_HEADS": 8, "HALF": 64, "BLOCK": 64, "HAS_NORM": True},
    ),
    *(
        (
            *(f"{rows} rows, norm and product", few_rows_triton.multiply_rows),
            *({**_FEW, "out": "*fp32"}, _few(rows, 1024, 4096, 32, "HAS_NORM")),
        )
        for rows in (16, 32, 64)
    ),
    *(
        (
            *(f"{rows} rows, product and residual", few_rows_triton.multiply_rows, _FEW),
            _few(rows, 6144, 2048, 16, "HAS_ADDED", "HAS_FACTORS", "HAS_BIAS"),
        )
        for rows in (16, 32, 64)
    ),
    *(
        (
            *(f"{rows} rows of a table, product", few_rows_triton.multiply_rows, _FEW),
            _few(rows, 2048, 1024, 16, "HAS_IDS", "HAS_BIAS"),
        )
        for rows in (16, 32, 64)
    ),
    *(
        (
            *(f"{rows} rows, norm and gate", few_rows_triton.multiply_rows, _FEW),
            _few(rows, 2048, 6144, 32, "HAS_NORM", "GATED"),
        )
        for rows in (16, 32, 64)
    ),
    *(
        (
            *(f"{rows} rows, float8, norm and gate", few_rows_triton.multiply_rows, _FEW_FLOAT8),
            _few(rows, 2048, 6144, 32, "HAS_NORM", "GATED", "HAS_SCALES"),
        )
        for rows in (16, 32, 64)
    ),
    *(
        (
            *(f"{rows} rows, float8 and residual", few_rows_triton.multiply_rows, _FEW_FLOAT8),
            _few(rows, 6144, 2048, 16, "HAS_ADDED", "HAS_FACTORS", "HAS_BIAS", "HAS_SCALES"),
        )
        for rows in (16, 32, 64)
    ),
    *(
        (f"adapters {part}, {kind}", kernel, {**told, **dict.fromkeys(halves, kind)}, sizes)
        for kind in ("*bf16", "*fp32")
        for part, kernel, told, halves, sizes in (
            ("down", lora_triton.lora_down, _DOWN, ("x", "a"), {"SIZE": 2048, "INPUTS": 128}),
            ("up", lora_triton.lora_up, _UP, ("b", "out"), {"SIZE": 4096, "OUTPUTS": 64}),
        )
        for sizes in ({**_LORA, **sizes},)
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
