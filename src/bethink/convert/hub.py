"""Folders as `transformers` and the hub lay them out: MarianMT (OPUS-MT), M2M-100 and NLLB.

Nothing of a folder is run. Its tensors keep their own order of rows here; `convert` brings them into bethink's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bethink.convert.pieces import Inventory, listed
from bethink.errors import ModelError, UsageError, unknown
from bethink.files import read_json
from bethink.model.weights import load_tensors

CONFIG = "config.json"
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
SHARED_PIECES = "sentencepiece.bpe.model"
DROPOUT = 0.1  # of these models unless they say otherwise
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}
# Marian's options that transformers' own Marian does not have
PLAIN = {"normalize_before": False, "normalize_embedding": False, "static_position_embeddings": True}


@dataclass(frozen=True)
class Foreign:
    """A model of another tool: sizes as bethink names them, weights by bethink's names, and its vocabulary."""

    kind: str
    sizes: dict[str, Any]  # of ModelConfig, without the vocabularies
    weights: dict[str, Tensor]
    source: Inventory
    target: Inventory
    source_model: bytes  # sentencepiece
    target_model: bytes
    begin: tuple[str, ...]  # pieces before the translation
    tag: tuple[str, ...]  # pieces before the source


def read(folder: Path, source: str | None, target: str | None) -> Foreign:
    """The model of a folder with a config.json; `source` and `target` are languages of a multilingual model."""
    config = read_json(folder / CONFIG, ModelError)
    kind = config.get("model_type")
    if kind == "marian":
        return _marian(folder, config, source, target)
    if kind == "m2m_100":
        return _m2m(folder, config, source, target)
    found = f"a model of type '{kind}'" if kind else f"a {CONFIG} without model_type"
    raise ModelError(
        f"{folder} holds {found}; bethink converts 'marian' (MarianMT, OPUS-MT) and 'm2m_100' (M2M-100, NLLB)"
    )


def _marian(folder: Path, config: dict[str, Any], source: str | None, target: str | None) -> Foreign:
    for option, plain in PLAIN.items():
        if config.get(option, plain) != plain:
            raise ModelError(f"the Marian model in {folder} has {option} = {config[option]}, which cannot be converted")
    refuse_source(source)
    inventory = _listed(folder / "vocab.json", config)
    shared = config.get("share_encoder_decoder_embeddings", True)
    other = inventory if shared else _listed(folder / "target_vocab.json", config)
    return Foreign(
        kind="MarianMT",
        sizes=sizes_of(config, folder) | {"norm": "post", "positions": "marian"},
        weights=weights_of(_tensors(folder), config, folder, shared),
        source=inventory,
        target=other,
        source_model=file_bytes(folder / "source.spm"),
        target_model=file_bytes(folder / "target.spm"),
        begin=(other.pieces[config.get("decoder_start_token_id", config["pad_token_id"])],),
        tag=marian_tag(inventory, target, folder),
    )


def refuse_source(source: str | None) -> None:
    if source is not None:
        raise UsageError("--source is for M2M-100 and NLLB; a Marian model reads one language or recognises it")


def marian_tag(inventory: Inventory, target: str | None, folder: Path) -> tuple[str, ...]:
    tags = {piece[2:-2]: piece for piece in inventory.silent}
    if not tags and target is None:
        return ()
    if not tags:
        raise UsageError(
            f"the model in {folder} has no language tags, so its target language cannot be chosen; leave --target out"
        )
    if target is None:
        raise UsageError(f"the model in {folder} writes several languages; choose one with --target: {_some(tags)}")
    if target.strip("><") not in tags:
        raise unknown("target language of this model", target, list(tags))
    return (tags[target.strip("><")],)


def _m2m(folder: Path, config: dict[str, Any], source: str | None, target: str | None) -> Foreign:
    listed = (folder / "vocab.json").is_file()  # M2M-100; NLLB numbers its pieces as sentencepiece does
    inventory = _multilingual(folder, config, folder / ("vocab.json" if listed else SHARED_PIECES))
    languages = {piece.strip("_"): piece for piece in inventory.silent if not piece.startswith("<")}
    tags: list[str] = []
    for side, language in (("source", source), ("target", target)):
        if language is None:
            raise UsageError(
                f"the model in {folder} is multilingual; choose its languages with --source and --target, of: {_some(languages)}"
            )
        if language not in languages:
            raise unknown(f"{side} language of this model", language, list(languages))
        tags.append(languages[language])
    model = file_bytes(folder / SHARED_PIECES)
    start = inventory.pieces[config.get("decoder_start_token_id", 2)]
    return Foreign(
        kind="M2M-100" if listed else "NLLB",
        sizes=sizes_of(config, folder) | {"norm": "pre", "positions": "fairseq-2"},
        weights=weights_of(_tensors(folder), config, folder, True),
        source=inventory,
        target=inventory,
        source_model=model,
        target_model=model,
        begin=(start, tags[1]),
        tag=(tags[0],),
    )


# vocabularies


def _listed(path: Path, config: dict[str, Any]) -> Inventory:
    """The pieces of a vocab.json, which names the id of each."""
    pieces = by_id(path, read_json(path, ModelError))
    return _inventory(pieces, config, tags_among(pieces), path)


def tags_among(pieces: Sequence[str]) -> set[str]:
    """Marian's pieces for languages, such as >>fra<<."""
    return {piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")}


def _multilingual(folder: Path, config: dict[str, Any], path: Path) -> Inventory:
    """The pieces of vocab.json or, for NLLB, of sentencepiece; then one for each language, then those that fill the table."""
    special = _special_pieces(folder)
    if path.name == SHARED_PIECES:  # fairseq has four special pieces in place of the first three
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *listed(file_bytes(path))[3:]]
    else:
        pieces = by_id(path, read_json(path, ModelError))
        special = [piece for piece in special if piece.startswith("__")]
    languages = [piece for piece in special if piece not in pieces]
    made_up = [f"<madeup {n}>" for n in range(config["vocab_size"] - len(pieces) - len(languages))]
    return _inventory([*pieces, *languages, *made_up], config, {*languages, *made_up}, path)


def _special_pieces(folder: Path) -> list[str]:
    """The pieces that were added to a vocabulary, in the order of their ids: the languages and a few others."""
    tokenizer, settings, special = (
        read_json(folder / name, ModelError) if (folder / name).is_file() else {}
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    )
    added = {entry["id"]: entry["content"] for entry in tokenizer.get("added_tokens", [])}
    added = added or {int(n): entry["content"] for n, entry in settings.get("added_tokens_decoder", {}).items()}
    if added:
        return [added[n] for n in sorted(added)]
    for key in ("additional_special_tokens", "extra_special_tokens"):
        for file in (special, settings):
            if found := file.get(key):
                return [entry if isinstance(entry, str) else entry["content"] for entry in found]
    raise ModelError(
        f"{folder} does not list its languages; expected tokenizer.json, tokenizer_config.json or special_tokens_map.json of the model"
    )


def by_id(path: Path, ids: dict[str, int]) -> list[str]:
    pieces = sorted(ids, key=lambda piece: ids[piece])
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise ModelError(f"the ids in {path} are not 0, 1, 2 …; expected the id of every piece of the vocabulary")
    return pieces


def _inventory(pieces: list[str], config: dict[str, Any], silent: set[str], path: Path) -> Inventory:
    try:
        special = (config["pad_token_id"], config["eos_token_id"], pieces.index("<unk>"))
    except (KeyError, ValueError) as error:
        raise ModelError(f"{path} and {CONFIG} do not name padding, end of sentence and <unk>: {error}") from error
    return Inventory(pieces, special, frozenset(silent))


def _some(names: Mapping[str, object]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:12]) + (f" … ({len(shown)} in all)" if len(shown) > 12 else "")


# sizes and weights


def sizes_of(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    for name in ("ffn_dim", "attention_heads"):
        if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
            raise ModelError(
                f"encoder and decoder of the model in {folder} differ in {name}, which cannot be converted"
            )
    if config["activation_function"] not in ACTIVATIONS:
        raise ModelError(
            f"the model in {folder} has the activation '{config['activation_function']}'; bethink converts {', '.join(ACTIVATIONS)}"
        )
    return {
        "width": config["d_model"],
        "hidden": config["encoder_ffn_dim"],
        "heads": config["encoder_attention_heads"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "activation": ACTIVATIONS[config["activation_function"]],
        "dropout": float(config.get("dropout", DROPOUT)),  # for further training
    }


def weights_of(theirs: Mapping[str, Tensor], config: dict[str, Any], folder: Path, shared: bool) -> dict[str, Tensor]:
    """Weights by transformers' names under bethink's names; embeddings that are one in the model are one tensor here."""
    kept = dict(_renamed(theirs, config, folder))
    source = _first(
        theirs, folder, *(["shared.weight"] if shared else []), "encoder.embed_tokens.weight", "lm_head.weight"
    )
    target = source if shared else _first(theirs, folder, "decoder.embed_tokens.weight")
    output = target if config.get("tie_word_embeddings", True) else _first(theirs, folder, "lm_head.weight")
    bias = theirs.get("final_logits_bias", torch.zeros(len(output)))
    tables = {"source_embedding": source, "target_embedding": target, "output_embedding": output}
    if not config.get("scale_embedding", False):  # bethink always scales what it looks up
        for name in ("source_embedding", "target_embedding"):
            tables[name] = tables[name] / config["d_model"] ** 0.5
    return kept | {f"{name}.weight": table for name, table in tables.items()} | {"output_bias": bias.flatten()}


def _renamed(theirs: Mapping[str, Tensor], config: dict[str, Any], folder: Path) -> Iterator[tuple[str, Tensor]]:
    def take(ours: str, *names: str) -> Iterator[tuple[str, Tensor]]:
        for kind in ("weight", "bias"):
            tensors = [_first(theirs, folder, f"{name}.{kind}") for name in names]
            yield f"{ours}.{kind}", torch.cat(tensors) if len(tensors) > 1 else tensors[0]  # cat would copy it

    for side in ("encoder", "decoder"):
        for n in range(config[f"{side}_layers"]):
            layer, ours = f"{side}.layers.{n}", f"{side}.{n}"
            attentions = {f"{ours}.itself.attention": f"{layer}.self_attn"}
            norms = {f"{ours}.itself.residual": "self_attn_layer_norm", f"{ours}.feed.residual": "final_layer_norm"}
            if side == "decoder":
                attentions[f"{ours}.cross"] = f"{layer}.encoder_attn"
                norms[f"{ours}.residual"] = "encoder_attn_layer_norm"
            for name, its in attentions.items():
                yield from take(f"{name}.query", f"{its}.q_proj")
                yield from take(f"{name}.memory", f"{its}.k_proj", f"{its}.v_proj")
                yield from take(f"{name}.out", f"{its}.out_proj")
            for name, its in norms.items():
                yield from take(f"{name}.norm", f"{layer}.{its}")
            yield from take(f"{ours}.feed.into", f"{layer}.fc1")
            yield from take(f"{ours}.feed.out", f"{layer}.fc2")
    if config["model_type"] == "m2m_100":
        yield from take("encoder_norm", "encoder.layer_norm")
        yield from take("output_norm", "decoder.layer_norm")


def _first(theirs: Mapping[str, Tensor], folder: Path, *names: str) -> Tensor:
    found = next((theirs[name] for name in names if name in theirs), None)
    if found is None:
        raise ModelError(f"the weights in {folder} lack {names[0]}; expected all weights that {CONFIG} describes")
    return found.float()


def _tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, from one file or, as an index lists them, from several."""
    for name, load in ((SAFE, load_tensors), (PICKLED, _unpickled)):
        index, parts = folder / f"{name}.index.json", [name]
        if not (folder / name).is_file():
            if not index.is_file():
                continue
            parts = sorted(set(read_json(index, ModelError).get("weight_map", {}).values()))
            if not parts or any(Path(part).name != part for part in parts):
                raise ModelError(f"{index} does not name the files of the weights")
        return {key.removeprefix("model."): tensor for part in parts for key, tensor in load(folder / part).items()}
    raise ModelError(f"{folder} has no weights; expected {SAFE} or {PICKLED}")


def _unpickled(path: Path) -> dict[str, Tensor]:
    """PyTorch's reader for weights only: it knows tensors and a few plain types, and refuses everything else unread."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # it has many unrelated exceptions for damaged and for refused files
        raise ModelError(f"cannot read {path} as plain weights; download it again, or take {SAFE}") from error
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}


def file_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise ModelError(f"there is no {path}; expected all files of the model, as on the hub")
    return path.read_bytes()
