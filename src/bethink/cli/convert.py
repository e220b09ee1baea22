"""`bethink convert`: a model of another tool → a model folder (with the 'convert' extra)."""

from __future__ import annotations

import argparse
from pathlib import Path

from bethink.cli.common import Verbs, verb
from bethink.errors import needs_extra


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "convert",
        "make a model folder from an OPUS-MT, M2M-100 or NLLB model",
        "Turns an offline model of another tool into a model folder that translates word by word. FOLDER is a MarianMT (OPUS-MT), "
        "M2M-100 or NLLB model as the hub lays it out: config.json, model.safetensors or pytorch_model.bin, and its sentencepiece files; "
        "or a model as Marian writes it: an .npz file with its vocabulary. "
        "Nothing in it is run. Its encoder is bidirectional, so each word read encodes the sentence so far again. "
        "Train a judge next: bethink judge.",
        (
            "opus-mt-de-en --to models/opus-de-en",
            "opus-mt-en-ROMANCE --target fra --to models/en-fr",
            "nllb-200-distilled-600M --source deu_Latn --target eng_Latn --to models/nllb-de-en",
        ),
        run,
    )
    made.add_argument("folder", metavar="FOLDER", help="the folder of the downloaded model")
    made.add_argument("--to", required=True, metavar="DIR", help="the model folder to create")
    made.add_argument(
        "--source", metavar="LANGUAGE", help="the source language of an M2M-100 or NLLB model, as in deu_Latn"
    )
    made.add_argument(
        "--target", metavar="LANGUAGE", help="the target language of a multilingual model, as in eng_Latn or fra"
    )
    precision = "float32, or int8 for a quarter of the size and more speed (default: int8)"
    made.add_argument("--precision", default="int8", metavar="NAME", help=precision)
    made.add_argument("--weights", action="store_true", help="include the weights as float32, to train it further")
    made.add_argument("--name", help="the name of the model (default: that of its folder)")


def run(args: argparse.Namespace) -> int:
    with needs_extra("converting a model", "convert"):
        from bethink.convert import convert
    options = {"source": args.source, "target": args.target, "precision": args.precision, "name": args.name}
    print(convert(Path(args.folder), Path(args.to), weights=args.weights, **options))
    return 0
