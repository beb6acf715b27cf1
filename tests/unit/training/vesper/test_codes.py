"""k-means tables, and that a decoder gets back what was quantised."""

import torch

from ttsfamilies.vesper.codec.net import VesperDecoder
from voicetrain.vesper.codes import Features, Tables, features, fit, install, quantised


def _features(frames: int, seed: int) -> Features:
    generator = torch.Generator().manual_seed(seed)
    f0 = 200 * torch.exp(0.2 * torch.randn(4 * frames, generator=generator))
    f0[: 4 * (frames // 3)] = 0
    energy = torch.randn(4 * frames, generator=generator)
    return features(f0, energy, torch.randn(2 * frames, 16, generator=generator))


def test_a_frame_has_four_hops_of_pitch_and_energy_and_two_units_of_text() -> None:
    found = _features(30, 0)
    assert [tuple(part.shape) for part in found] == [(30, 8), (30, 4), (30, 32)]
    assert (found.pitch[:10] == 0).all()


def test_more_entries_come_closer() -> None:
    parts = [_features(200, seed) for seed in range(4)]
    few, many = (fit(parts, size, size, 0) for size in (8, 64))

    def error(tables: Tables) -> float:
        codes = quantised(tables, parts[0])
        made = tables.text[codes[:, 2]] + tables.rest[codes[:, 3]]
        return float((made - parts[0].text).square().mean())

    assert error(many) < 0.8 * error(few)


def test_the_decoder_is_told_what_the_tables_say(decoder: VesperDecoder) -> None:
    parts = [_features(300, seed) for seed in range(2)]
    tables = fit(parts, 32, 32, 0)
    install(tables, torch.tensor([0, 1, 2, 3]), decoder)
    codes = quantised(tables, parts[0])
    one = torch.ones(1)
    f0 = decoder.pitch(codes[None, :, 0], 0 * one, one)
    inputs = decoder.inputs(codes[None], f0)[0]
    assert decoder.silence.tolist() == [0, 1, 2, 3]
    text = (tables.text[codes[:, 2]] + tables.rest[codes[:, 3]]).reshape(-1, 16)
    assert torch.allclose(inputs[:, :16], text.repeat_interleave(2, 0))
    assert torch.allclose(inputs[:, 17], tables.energy[codes[:, 1]].flatten())
    true = parts[0].pitch.reshape(-1, 2)
    voiced = (true[:, 1] > 1) & (f0[0] > 0)
    assert ((true[:, 1] > 1) == (f0[0] > 0)).float().mean() > 0.95
    apart = (f0[0, voiced] / 200).log() * 4 - true[voiced, 0]
    assert apart.abs().mean() < 0.5
