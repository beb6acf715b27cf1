"""Compile every kernel for every target, without a device. Run as a program, see test_compile.

Prints a line for each: kernel, case, target, bytes of shared memory. In a process of its own,
because Triton either interprets or compiles.
"""

from __future__ import annotations

from typing import Any, Final

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from talker.kernels import attention_triton, cache_triton, frame_triton
from talker.sampling import draw_triton
from ttscommon.engine.kernels import blocks_triton, experts_triton, lora_triton

TARGETS: Final = (80, 90)
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
    **dict.fromkeys(("mixed_out", "stats_out"), "*fp32"),
    "tables": "*i32",
    "tiles": "*i32",
    "scale": "fp32",
    "table_stride": "i32",
    "part": "i32",
}
_COMBINE: Final = {"mixed_in": "*fp32", "stats_in": "*fp32", "out": "*bf16"}
_STORE: Final = {
    **dict.fromkeys(("new_keys", "new_values", "keys", "values"), "*bf16"),
    "places": "*i64",
    "k_stride": "i32",
    "v_stride": "i32",
}
_MOVE: Final = {
    "keys": "*bf16",
    "values": "*bf16",
    "source": "*i64",
    "target": "*i64",
    "rows": "i32",
}
_NORM: Final = {
    **dict.fromkeys(("x", "added", "weight", "summed_out", "normed_out"), "*bf16"),
    "eps": "fp32",
}
_ROTATE: Final = {
    "x": "*bf16",
    "weight": "*bf16",
    "cosines": "*fp32",
    "sines": "*fp32",
    "out": "*bf16",
    "row_stride": "i32",
    "eps": "fp32",
}
_FRAME: Final = {
    **dict.fromkeys(("q", "k", "v", "keys", "values", "out"), "*fp32"),
    **dict.fromkeys(("filled", "v_row", "v_new", "cache_row"), "i32"),
    "scale": "fp32",
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
_LORA: Final = {"RANK": 192, "TILE": 16, "RANKS": 16}
_PREDICTOR: Final = {"KV_HEADS": 8, "GROUP": 2, "DIM": 128, "DIM_BLOCK": 128, "POSITIONS": 16}
_QWEN: Final = {"HEADS": 16, "KV_HEADS": 8, "DIM": 128, "DIM_BLOCK": 128, "PAGE": 16, "KEYS": 64}
_ALL: Final = {"HAS_RULES": True, "HAS_TOP_K": True, "HAS_TOP_P": True}
_NONE: Final = dict.fromkeys(_ALL, False)


def _attend(rows: int, parts: int) -> dict[str, Any]:
    return {**_QWEN, "ROWS": rows, "PARTS": parts, "REACH": 0, "PRECISION": None}


# The sizes of Qwen3-TTS 1.7B, with every switch on and off.
CASES: Final = (
    ("sample", draw_triton.sample_rows, _SAMPLE, {**_ALL, "BLOCK": 4096}),
    ("draw", draw_triton.sample_rows, _SAMPLE, {**_NONE, "BLOCK": 2048}),
    ("attend, short", attention_triton.attend_tiles, _ATTEND, _attend(16, 1)),
    ("attend, long", attention_triton.attend_tiles, _ATTEND, _attend(16, 16)),
    ("attend, prompt", attention_triton.attend_tiles, _ATTEND, _attend(32, 1)),
    (
        *("combine", attention_triton.combine_parts, _COMBINE),
        {"DIM": 128, "DIM_BLOCK": 128, "PARTS": 16, "PARTS_BLOCK": 16},
    ),
    ("frame, two positions", frame_triton.attend_frames, _FRAME, {**_PREDICTOR, "NEW": 2}),
    ("frame, one position", frame_triton.attend_frames, _FRAME, {**_PREDICTOR, "NEW": 1}),
    ("store", cache_triton.store_rows, _STORE, {"WIDTH": 1024, "BLOCK": 1024}),
    ("move", cache_triton.move_rows, _MOVE, {"WIDTH": 1024, "BLOCK": 1024}),
    (
        *("add, norm", blocks_triton.add_norm_rows, _NORM),
        {"SIZE": 2048, "BLOCK": 2048, "HAS_ADDED": True},
    ),
    (
        *("norm", blocks_triton.add_norm_rows, _NORM),
        {"SIZE": 2048, "BLOCK": 2048, "HAS_ADDED": False},
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


def main() -> None:
    for target in TARGETS:
        for name, kernel, signature, constants in CASES:
            types = {**signature, **dict.fromkeys(constants, "constexpr")}
            ordered = {argument: types[argument] for argument in kernel.arg_names}
            source = ASTSource(kernel, ordered, constexprs=constants)
            compiled = triton.compile(source, target=GPUTarget("cuda", target, 32))
            assert compiled.asm["cubin"]
            print(f"{name} sm_{target} {compiled.metadata.shared}", flush=True)


if __name__ == "__main__":
    main()
