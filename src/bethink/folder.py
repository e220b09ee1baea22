"""Model folders: all files of a model, described by config.json and checked by hash before use."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bethink.errors import BethinkError, ModelError, UsageError
from bethink.files import read_json, write_json
from bethink.model.config import ModelConfig
from bethink.policy import parse
from bethink.text import Vocabulary, load_vocabulary

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
GRAPHS = ENCODER, DECODER = "encoder.onnx", "decoder.onnx"


@dataclass(frozen=True)
class Folder:
    path: Path
    config: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Read a folder and check it: its format is known, no file is missing or changed."""
        config = _read_config(path)
        for name, digest in config["files"].items():
            if Path(name).name != name:
                raise ModelError(f"{path / CONFIG} names the file '{name}', which is not a plain file name")
            if not (path / name).is_file():
                raise ModelError(f"the model in {path} has no file {name}; copy or export the model again")
            if sha256(path / name) != digest:
                raise ModelError(f"{path / name} has changed since the model was made; copy or export the model again")
        return cls(path, config)

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def policy(self) -> str:
        """The policy that the model recommends."""
        return str(self.config["policy"])

    @property
    def about(self) -> dict[str, Any]:
        return dict(self.config.get("about", {}))

    @property
    def fingerprint(self) -> str:
        """Tells apart models of the same name: a hash of the hashes of their files."""
        return hashlib.sha256(json.dumps(self.config["files"], sort_keys=True).encode()).hexdigest()[:12]

    @functools.cached_property
    def model(self) -> ModelConfig:
        return ModelConfig.from_dict(self.config["model"])

    @functools.cached_property
    def source(self) -> Vocabulary:
        return self._vocabulary("source")

    @functools.cached_property
    def target(self) -> Vocabulary:
        return self._vocabulary("target")

    def has(self, name: str) -> bool:
        return name in self.config["files"]

    def _vocabulary(self, side: str) -> Vocabulary:
        entry = self.config[side]
        file = self.path / entry["file"]
        vocabulary, expected = load_vocabulary(file, entry["kind"]), getattr(self.model, f"{side}_vocabulary")
        if len(vocabulary) != expected:
            raise ModelError(
                f"{file} has {len(vocabulary)} entries, but the model in {self.path} was made for a {side} vocabulary of "
                f"{expected}; copy or export the model again"
            )
        return vocabulary


def create(
    path: Path,
    *,
    name: str,
    model: ModelConfig,
    vocabularies: dict[str, Vocabulary],
    files: Iterable[str],
    policy: str,
    about: dict[str, Any],
) -> Folder:
    """Complete a folder that already holds `files`: write the vocabularies and, last, config.json."""
    entries = {side: save_vocabulary(path, side, vocabulary) for side, vocabulary in vocabularies.items()}
    names = [*files, *(entry["file"] for entry in entries.values())]
    config = {
        "format": FORMAT,
        "name": name,
        "model": model.to_dict(),
        **entries,
        "policy": policy,
        "about": about,
        "files": {file: sha256(path / file) for file in names},
    }
    write_json(path / CONFIG, config)
    return Folder.open(path)


def find(name: str | os.PathLike[str]) -> Path:
    """Find a model: a folder, or a name in ./models, $BETHINK_MODELS, the user's cache or the package."""
    if not isinstance(name, str | os.PathLike):
        raise UsageError(f"the model must be a name or a folder, as in 'de-en', not {type(name).__name__}")
    for place in (Path(name), Path(name) / "model"):  # a run keeps its model in RUN/model
        if (place / CONFIG).is_file():
            return place
    places = list(_places())
    if Path(name).name == str(name):
        for place in places:
            if (place / name / CONFIG).is_file():
                return place / name
    known = sorted({config.parent.name for place in places for config in place.glob(f"*/{CONFIG}")})
    raise ModelError(
        f"no model '{os.fspath(name)}': it is neither a model folder nor a name known in {', '.join(map(str, places))}; "
        f"known are: {', '.join(known) or 'none'}; give one of these or a folder (--model on the command line)"
    )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_vocabulary(path: Path, side: str, vocabulary: Vocabulary) -> dict[str, str]:
    """Write a vocabulary into a folder; returns its kind and the name of its file."""
    file = f"{side}.{'txt' if vocabulary.kind == 'words' else 'spm'}"
    vocabulary.save(path / file)
    return {"kind": vocabulary.kind, "file": file}


def _places() -> Iterator[Path]:
    yield Path("models")
    if "BETHINK_MODELS" in os.environ:
        yield Path(os.environ["BETHINK_MODELS"])
    yield Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "bethink" / "models"
    package = Path(__file__).parent
    yield package / "models"
    if package.parent.name == "src":  # a clone
        yield package.parent.parent / "models"


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ModelError(f"there is no folder {path}; give a model folder or a run of 'bethink train'")
    if not (path / CONFIG).exists():
        raise ModelError(f"{path} is not a model folder: it has no {CONFIG}")
    config = read_json(path / CONFIG, ModelError)
    if config.get("format") != FORMAT:
        raise ModelError(
            f"{path / CONFIG} has format {config.get('format')}, this version of bethink reads format {FORMAT}"
        )
    if missing := {"name", "model", "source", "target", "policy", "files"} - config.keys():
        raise ModelError(f"{path / CONFIG} lacks {', '.join(sorted(missing))}")
    try:
        ModelConfig.from_dict(config["model"])
        parse(config["policy"])
        _check_parts(config)
    except (BethinkError, TypeError, AttributeError, KeyError, ArithmeticError) as error:
        raise ModelError(f"{path / CONFIG} does not describe a model: {error}") from error
    return config


def _check_parts(config: dict[str, Any]) -> None:
    """Check the other parts of config.json: types, vocabularies and graphs."""
    for name in ("source", "target", "files", "about"):
        if not isinstance(config.get(name, {}), dict):
            raise ModelError(f"'{name}' is {config[name]!r}, expected an object")
    files = config["files"]
    for side in ("source", "target"):
        for key in ("kind", "file"):
            if not isinstance(config[side].get(key), str):
                raise ModelError(f"the {key} of '{side}' is {config[side].get(key)!r}, expected a name")
        if config[side]["file"] not in files:
            raise ModelError(f"its vocabulary {config[side]['file']} is not among its files")
    graphs = [graph for graph in GRAPHS if graph in files]
    if len(graphs) == 1:
        raise ModelError(f"it has only {graphs[0]}, expected {' and '.join(GRAPHS)}, or neither")
