"""A model folder: everything a model needs, described by its own config.json and checked by hash before it is used."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bethink.errors import BethinkError, ModelError
from bethink.files import write_atomically
from bethink.model.config import ModelConfig
from bethink.policy import parse
from bethink.text import Vocabulary, load_vocabulary

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Folder:
    path: Path
    config: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Reads and checks a folder: known format, every file there and unchanged."""
        folder = cls(path, _read_config(path))
        folder._check_files()
        return folder

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def policy(self) -> str:
        """The policy the model's makers recommend."""
        return str(self.config["policy"])

    @property
    def about(self) -> dict[str, Any]:
        return dict(self.config.get("about", {}))

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
        return load_vocabulary(self.path / entry["file"], entry["kind"])

    def _check_files(self) -> None:
        for name, digest in self.config["files"].items():
            if Path(name).name != name:
                raise ModelError(f"{self.path / CONFIG} names the file '{name}', which is not a plain file name")
            if not (self.path / name).is_file():
                raise ModelError(f"the model in {self.path} lacks its file {name}; copy or export the model again")
            if sha256(self.path / name) != digest:
                raise ModelError(
                    f"{self.path / name} is not the file the model was made with; copy or export the model again"
                )


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
    """Complete a folder whose other `files` already lie in `path`: vocabularies, then config.json last."""
    entries = {side: _save_vocabulary(path, side, vocabulary) for side, vocabulary in vocabularies.items()}
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
    write_atomically(path / CONFIG, json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n")
    return Folder.open(path)


def find(name: str | os.PathLike[str]) -> Path:
    """Where a model is: a folder, or a name looked up in ./models, $BETHINK_MODELS, the user's cache and the package."""
    if (Path(name) / CONFIG).is_file():
        return Path(name)
    places = list(_places())
    if Path(name).name == str(name):
        for place in places:
            if (place / name / CONFIG).is_file():
                return place / name
    known = sorted({config.parent.name for place in places for config in place.glob(f"*/{CONFIG}")})
    raise ModelError(
        f"no model '{os.fspath(name)}': it is neither a model folder nor a name known in {', '.join(map(str, places))}; "
        f"known are: {', '.join(known) or 'none'}"
    )


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _save_vocabulary(path: Path, side: str, vocabulary: Vocabulary) -> dict[str, str]:
    file = f"{side}.{'spm' if vocabulary.kind == 'sentencepiece' else 'txt'}"
    vocabulary.save(path / file)
    return {"kind": vocabulary.kind, "file": file}


def _places() -> Iterator[Path]:
    yield Path("models")
    if "BETHINK_MODELS" in os.environ:
        yield Path(os.environ["BETHINK_MODELS"])
    yield Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "bethink" / "models"
    yield Path(__file__).parent / "models"


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is not a model folder: it has no {CONFIG}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path / CONFIG}: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        found = config.get("format") if isinstance(config, dict) else type(config).__name__
        raise ModelError(f"{path / CONFIG} has format {found}, this version of bethink reads format {FORMAT}")
    if missing := {"name", "model", "source", "target", "policy", "files"} - config.keys():
        raise ModelError(f"{path / CONFIG} lacks {', '.join(sorted(missing))}")
    try:
        ModelConfig.from_dict(config["model"])
        parse(config["policy"])
        hashed = {name: str(digest) for name, digest in config["files"].items()}
        if strange := [entry["file"] for entry in (config["source"], config["target"]) if entry["file"] not in hashed]:
            raise ModelError(f"its vocabulary {strange[0]} is not among its files")
    except (BethinkError, TypeError, AttributeError, KeyError, ArithmeticError) as error:
        raise ModelError(f"{path / CONFIG} does not describe a model: {error}") from error
    return config
