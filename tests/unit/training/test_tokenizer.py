"""Quantisation and the tokenizer's shapes."""

import torch
from torch import nn

from talker.text.symbols import SYMBOLS
from vocoder.codecs.cantor_net import CantorDecoder
from voicetrain.tokenizer import Quantiser, Tokenizer


def test_codebooks_follow_the_data_and_deeper_is_closer() -> None:
    torch.manual_seed(0)
    quantiser = Quantiser(nn.Parameter(torch.zeros(3, 16, 4)))
    data = torch.randn(512, 4)
    for _ in range(30):
        quantiser(data)
    quantiser.eval()
    errors = [float((quantiser(data, depth).total - data).square().mean()) for depth in (1, 2, 3)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.2


def test_codes_name_the_entries_whose_sum_is_the_total() -> None:
    torch.manual_seed(0)
    quantiser = Quantiser(nn.Parameter(torch.randn(3, 16, 4))).eval()
    found = quantiser(torch.randn(2, 5, 4))
    entries = sum(quantiser.tables[i][found.codes[..., i]] for i in range(3))
    torch.testing.assert_close(found.total, entries)
    torch.testing.assert_close(found.first, quantiser.tables[0][found.codes[..., 0]])


def test_evaluation_changes_no_codebook() -> None:
    quantiser = Quantiser(nn.Parameter(torch.randn(2, 8, 4))).eval()
    before = quantiser.tables.clone()
    quantiser(torch.randn(64, 4))
    assert torch.equal(before, quantiser.tables)


def test_four_hops_make_one_frame() -> None:
    tokenizer = Tokenizer(CantorDecoder()).eval()
    mel = torch.randn(2, 40, 80)
    assert tokenizer.codes(mel).shape == (2, 10, 4)
    first = tokenizer.quantiser(tokenizer.encode(mel)).first
    assert tokenizer.phone_logits(first).shape == (2, 10, 2, len(SYMBOLS))
