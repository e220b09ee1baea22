"""Marian's own .npz: written here from a MarianMT folder by the inverse mapping, it becomes the very same model folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import yaml
from safetensors.torch import load_file, save_file

from bethink import Translator
from bethink.cli import main
from bethink.convert import convert
from bethink.convert.pieces import ModelProto
from bethink.errors import BethinkError, ModelError
from bethink.folder import Folder
from tests.convert.hub import SIZES, sentences

ATTENTIONS = {"self": "self_attn", "context": "encoder_attn"}
# options as Marian writes them for OPUS-MT
OPTIONS = {
    "type": "transformer",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False,
    "transformer-train-position-embeddings": False,
    "transformer-tied-layers": [],
    "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "swish",
    "transformer-dim-ffn": SIZES["encoder_ffn_dim"],
    "transformer-heads": SIZES["encoder_attention_heads"],
    "dim-emb": SIZES["d_model"],
    "enc-depth": SIZES["encoder_layers"],
    "dec-depth": SIZES["decoder_layers"],
    "tied-embeddings-all": True,
    "right-left": False,
    "ulr": False,
    "input-types": [],
    "version": "v1.9.0",
}


def named(hub: dict[str, Any], pad: int) -> dict[str, np.ndarray]:
    """The weights of a MarianMT folder by Marian's names: matrices transposed, vectors as rows, nothing for padding."""
    weights = {name.removeprefix("model."): tensor.float().numpy() for name, tensor in hub.items()}
    made = {"Wemb": weights["shared.weight"][:pad], "decoder_ff_logit_out_b": weights["final_logits_bias"][:, :pad]}
    for side, layers in (("encoder", SIZES["encoder_layers"]), ("decoder", SIZES["decoder_layers"])):
        for n in range(layers):
            ours, theirs = f"{side}_l{n + 1}", f"{side}.layers.{n}"
            for kind, its in ATTENTIONS.items() if side == "decoder" else [("self", "self_attn")]:
                for part, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
                    made[f"{ours}_{kind}_W{part}"] = weights[f"{theirs}.{its}.{name}.weight"].T
                    made[f"{ours}_{kind}_b{part}"] = weights[f"{theirs}.{its}.{name}.bias"][None]
                made[f"{ours}_{kind}_Wo_ln_scale"] = weights[f"{theirs}.{its}_layer_norm.weight"][None]
                made[f"{ours}_{kind}_Wo_ln_bias"] = weights[f"{theirs}.{its}_layer_norm.bias"][None]
            for number in (1, 2):
                made[f"{ours}_ffn_W{number}"] = weights[f"{theirs}.fc{number}.weight"].T
                made[f"{ours}_ffn_b{number}"] = weights[f"{theirs}.fc{number}.bias"][None]
            made[f"{ours}_ffn_ffn_ln_scale"] = weights[f"{theirs}.final_layer_norm.weight"][None]
            made[f"{ours}_ffn_ffn_ln_bias"] = weights[f"{theirs}.final_layer_norm.bias"][None]
    return made


def write(path: Path, arrays: dict[str, np.ndarray], **changes: Any) -> None:
    text = yaml.safe_dump(OPTIONS | changes).encode() + b"\0"
    np.savez(path, **arrays, **{"special:model.yml": np.frombuffer(text, np.int8)})


@pytest.fixture(scope="module")
def from_zero(marian: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The MarianMT folder as transformers' own script would have made it: padding, which begins a translation, is a zero vector."""
    folder = tmp_path_factory.mktemp("hub") / "from-zero"
    shutil.copytree(marian, folder)
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if name in ("model.shared.weight", "lm_head.weight") or "embed_tokens" in name:
            tensor[-1] = 0
    weights["final_logits_bias"][:, -1] = 0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def npz(from_zero: Path) -> Path:
    """The same model as a folder of Marian's: weights, vocabulary, two sentencepiece models, and decoder.yml."""
    folder = from_zero.parent / "npz"
    folder.mkdir()
    ids = json.loads((from_zero / "vocab.json").read_text())
    pad = ids.pop("<pad>")
    lines = [f"{json.dumps(piece, ensure_ascii=False)}: {number}\n" for piece, number in ids.items()]
    lines[5] = "{}: {}\n".format(*list(ids.items())[5])  # pieces may also stand without quotation marks
    (folder / "opus.vocab.yml").write_text("".join(lines), encoding="utf-8")
    write(folder / "model.npz", named(load_file(from_zero / "model.safetensors"), pad))
    settings = {"models": ["model.npz"], "vocabs": ["opus.vocab.yml"] * 2, "beam-size": 6}
    (folder / "decoder.yml").write_text(yaml.safe_dump(settings))
    for name in ("source.spm", "target.spm", "README.md"):
        shutil.copy(from_zero / name, folder)
    return folder


def test_both_folders_of_a_model_become_the_same(from_zero: Path, npz: Path, tmp_path: Path) -> None:
    """To the last bit: graphs and vocabularies have the same hashes."""
    hub, made = tmp_path / "hub", tmp_path / "made"
    convert(from_zero, hub, target="fra", precision="float32")
    assert main(["convert", str(npz), "--to", str(made), "--target", "fra", "--precision", "float32"]) == 0
    assert Folder.open(made).fingerprint == Folder.open(hub).fingerprint
    assert (Folder.open(made).about["architecture"], Folder.open(made).about["licence"]) == ("Marian", "apache-2.0")
    (npz / "decoder.yml").rename(tmp_path / "decoder.yml")
    again = convert(npz, tmp_path / "again", target="fra", precision="float32")
    (tmp_path / "decoder.yml").rename(npz / "decoder.yml")
    assert Folder.open(again).fingerprint == Folder.open(hub).fingerprint, "decoder.yml is not needed"
    lines = [pair.source for pair in sentences(50, seed=9)]
    texts = [
        [one.text for one in Translator(path, threads=1).translate_many(lines, "wait-k:3")] for path in (hub, made)
    ]
    assert texts[0] == texts[1]


def test_a_sentencepiece_model_may_be_the_vocabulary(from_zero: Path, npz: Path, tmp_path: Path) -> None:
    """Its ids are those of the model: end of sentence 0, unknown 1, as Marian trains it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    both = ModelProto()
    both.ParseFromString((from_zero / "target.spm").read_bytes())
    pieces = {piece.piece: piece for piece in both.pieces}
    ids = json.loads((from_zero / "vocab.json").read_text())
    pad = ids.pop("<pad>")
    kind = ModelProto.SentencePiece
    del both.pieces[:]
    for piece in ids:
        special = {"</s>": kind.CONTROL, "<unk>": kind.UNKNOWN}.get(piece, kind.NORMAL)
        known = pieces.get(piece)
        both.pieces.append(kind(piece=piece, score=known.score if known else -30.0, type=special))
    spec = both.trainer_spec
    spec.eos_id, spec.unk_id, spec.bos_id, spec.pad_id, spec.vocab_size = 0, 1, -1, -1, len(ids)
    (folder / "vocab.spm").write_bytes(both.SerializeToString())
    write(folder / "model.npz", named(load_file(from_zero / "model.safetensors"), pad))
    made = Translator(convert(folder, tmp_path / "made", target="fra", precision="float32"), threads=1)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocab.spm"))
    for pair in sentences(50, seed=3):
        found = [token for word in pair.source.split() for token in made.source.encode(word)]
        assert [made.source._processor.id_to_piece(token) for token in found] == theirs.encode(
            pair.source, out_type=str
        )
    assert made.translate(sentences(1, seed=3)[0].source, "offline")


@pytest.mark.parametrize(
    ("tied", "changes"),
    [(True, {}), (False, {"tied-embeddings-all": False})],
    ids=["target and output shared", "all separate"],
)
def test_embeddings_may_be_separate(
    tied: bool, changes: dict[str, Any], from_zero: Path, npz: Path, tmp_path: Path
) -> None:
    """Equal tables stored apart give the same translations."""
    folder = tmp_path / "folder"
    shutil.copytree(npz, folder)
    arrays = named(
        load_file(from_zero / "model.safetensors"), len(json.loads((from_zero / "vocab.json").read_text())) - 1
    )
    table = arrays.pop("Wemb")
    arrays |= {"encoder_Wemb": table, "decoder_Wemb": table} | ({} if tied else {"decoder_ff_logit_out_W": table.T})
    write(folder / "model.npz", arrays, **changes)
    made = convert(folder, tmp_path / "made", target="fra", precision="float32")
    assert Folder.open(made).model.share == ("target" if tied else "none")
    plain = convert(npz, tmp_path / "plain", target="fra", precision="float32")
    lines = [pair.source for pair in sentences(30, seed=4)]
    texts = [
        [one.text for one in Translator(path, threads=1).translate_many(lines, "offline")] for path in (made, plain)
    ]
    assert texts[0] == texts[1]


def options(**changes: Any) -> Callable[[Path, dict[str, np.ndarray]], None]:
    named_ = {name.replace("_", "-"): value for name, value in changes.items()}
    return lambda folder, arrays: write(folder / "model.npz", arrays, **named_)


def arrays_with(**changes: Any) -> Callable[[Path, dict[str, np.ndarray]], None]:
    return lambda folder, arrays: write(folder / "model.npz", arrays | changes)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (options(type="s2s"), "type = 's2s', which cannot be converted"),
        (options(transformer_preprocess="n"), "transformer-preprocess = 'n'"),
        (options(transformer_postprocess_emb="nd"), "transformer-postprocess-emb = 'nd'"),
        (options(transformer_decoder_autoreg="rnn"), "transformer-decoder-autoreg = 'rnn'"),
        (options(transformer_tied_layers=[1, 1]), r"transformer-tied-layers = \[1, 1\]"),
        (options(transformer_ffn_activation="gelu"), "activation 'gelu'"),
        (arrays_with(Wpos=np.zeros((4, 4), np.float32)), "the weight Wpos, which a plain Transformer does not have"),
        (
            arrays_with(encoder_l1_self_Wq=np.zeros((4, 4), np.int8)),
            "holds int8; expected numbers as Marian trains them",
        ),
        (lambda folder, arrays: np.savez(folder / "model.npz", **arrays), "has no special:model.yml"),
        (lambda folder, _: (folder / "model.npz").write_bytes(b"PK\3\4 nothing"), "cannot read .*model.npz"),
        (lambda folder, _: (folder / "decoder.yml").write_text("models: [a.npz, b.npz]"), "2 models, an ensemble"),
        (lambda folder, _: (folder / "source.spm").unlink(), "there is no .*source.spm"),
        (lambda folder, _: (folder / "opus.vocab.yml").write_text("a b c"), "has the line 'a b c'"),
        (lambda folder, _: (folder / "opus.vocab.yml").write_text("a: 0\nb: 1"), "no end of sentence or no <unk>"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    spoil: Callable[[Path, dict[str, np.ndarray]], Any], said: str, npz: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(npz, folder)
    with np.load(folder / "model.npz") as stored:
        arrays = {name: stored[name] for name in stored.files if not name.startswith("special")}
    spoil(folder, arrays)
    with pytest.raises(BethinkError, match=said):
        convert(folder, tmp_path / "made", target="fra")
    assert not (tmp_path / "made").exists()


def test_nothing_in_it_is_unpickled(npz: Path, tmp_path: Path) -> None:
    class Danger:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "touched",))

    folder = tmp_path / "folder"
    shutil.copytree(npz, folder)
    np.savez(folder / "model.npz", Wemb=np.array([Danger()], dtype=object))
    with pytest.raises(ModelError, match="cannot read"):
        convert(folder, tmp_path / "made", target="fra")
    assert not (tmp_path / "touched").exists()
