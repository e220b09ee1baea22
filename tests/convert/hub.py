"""Small models in the hub's layout, built and trained with `transformers` on the toy language."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import M2M100Config, M2M100ForConditionalGeneration, MarianConfig, MarianMTModel, PreTrainedModel

from bethink import toy

SIZES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4}
SIZES |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0}
STEPS = 300
TAG = ">>fra<<"
CARD = "---\nlanguage:\n- xx\n- yy\nlicense: apache-2.0\ntags:\n- translation\n---\n\n# A toy model\n"


def sentences(count: int, seed: int) -> list[toy.AlignedPair]:
    """Short ones, which are learned fast."""
    return [pair for pair in toy.sentences(4 * count, seed) if len(pair.source.split()) <= 9][:count]


def train_pieces(lines: Sequence[str], path: Path, size: int, kind: str = "unigram", **options: Any) -> None:
    """As other tools train sentencepiece: its own special ids, its own normalisation."""
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=file,
            vocab_size=size,
            model_type=kind,
            num_threads=1,
            minloglevel=2,
            **options,
        )


def train(
    model: PreTrainedModel, pairs: Sequence[tuple[list[int], list[int]]], pad: int, steps: int, batch: int = 24
) -> None:
    """Until the model translates some of the toy language: the pairs are sources, and targets from the decoder's first input on."""
    torch.manual_seed(1)
    draw = random.Random(1)
    for parameter in model.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            torch.nn.init.xavier_uniform_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    model.train()
    for _ in range(steps):
        some = draw.sample(pairs, batch)
        source = pad_sequence([torch.tensor(one) for one, _ in some], True, pad)
        target = pad_sequence([torch.tensor(two) for _, two in some], True, pad)
        wanted = target[:, 1:].clone()
        lengths = torch.tensor([len(two) - 1 for _, two in some])
        wanted[torch.arange(wanted.shape[1]) >= lengths[:, None]] = -100
        logits = model(input_ids=source, attention_mask=(source != pad).long(), decoder_input_ids=target[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


def write_marian(path: Path, *, steps: int = STEPS, count: int = 1000, batch: int = 24, **settings: Any) -> Path:
    """A MarianMT folder: two sentencepiece models, one vocabulary that lacks a few of their pieces, and a language tag."""
    path.mkdir()
    pairs = sentences(count, seed=1)
    train_pieces([pair.source for pair in pairs], path / "source.spm", 420, hard_vocab_limit=False)
    train_pieces([pair.target for pair in pairs], path / "target.spm", 440, hard_vocab_limit=False)
    both = [sentencepiece.SentencePieceProcessor(model_file=str(path / f"{side}.spm")) for side in ("source", "target")]
    union = {model.id_to_piece(n) for model in both for n in range(3, model.get_piece_size())}
    union -= {"▁ne", "▁so"}  # as in OPUS-MT, not every piece is in the vocabulary
    pieces = ["</s>", "<unk>", *sorted(union), TAG, "<pad>"]
    ids = {piece: n for n, piece in enumerate(pieces)}
    (path / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    pad = len(pieces) - 1
    config = MarianConfig(
        vocab_size=len(pieces),
        **(SIZES | settings),
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    encode = [
        lambda text, m=model: [ids.get(piece, 1) for piece in m.encode(text, out_type=str)] + [0] for model in both
    ]
    tagged = [([ids[TAG], *encode[0](pair.source)], [pad, *encode[1](pair.target)]) for pair in pairs]
    train(model, tagged, pad, steps, batch)
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.3)  # an untrained one is 0, which hides mistakes
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(path)
    (path / "README.md").write_text(CARD, encoding="utf-8")
    return path


def write_m2m(path: Path, *, listed: bool, steps: int = STEPS) -> Path:
    """An M2M-100 folder (`listed`: with a vocab.json) or an NLLB folder (numbered by sentencepiece), with two languages."""
    path.mkdir()
    pairs = sentences(1000, seed=1)
    train_pieces(
        [text for pair in pairs for text in (pair.source, pair.target)], path / "sentencepiece.bpe.model", 700, "bpe"
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(path / "sentencepiece.bpe.model"))
    own = [model.id_to_piece(n) for n in range(3, model.get_piece_size())]
    languages = ["__af__", "__am__"] if listed else ["deu_Latn", "eng_Latn"]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *own]
    if listed:
        (path / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}), encoding="utf-8")
    special = {"additional_special_tokens": languages}
    (path / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    ids = {piece: n for n, piece in enumerate([*pieces, *languages])}
    config = M2M100Config(
        vocab_size=len(ids) + 8,
        **SIZES,
        attention_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        max_position_embeddings=128,
    )
    made = M2M100ForConditionalGeneration(config)

    def encode(text: str, language: str) -> list[int]:
        return [ids[language], *(ids.get(piece, 3) for piece in model.encode(text, out_type=str)), 2]

    train(
        made, [(encode(pair.source, languages[0]), [2, *encode(pair.target, languages[1])]) for pair in pairs], 1, steps
    )
    made.save_pretrained(path)
    return path
