"""A recipe is one experiment: a TOML file, checked and frozen, with `key=value` changes from the command line.

The setting `system` chooses the kind of model. It alone decides path, capsules and encoder, because only some combinations make
sense, and so that one recipe can train every system of a comparison under equal conditions. Settings for one system only, such as
fewer updates for fine-tuning, are in the section [for.SYSTEM].
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import tomllib
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bethink.checked import build, require_least, require_table, typed
from bethink.errors import TrainingError, UsageError, unknown
from bethink.files import read_json
from bethink.model.config import CONVERTED, LONGEST, LONGEST_PROMPT, CapsuleConfig, ModelConfig
from bethink.policy import Offline, Policy, PostEvaluation, WaitK
from bethink.policy import parse as parse_policy
from bethink.train.losses import LossConfig
from bethink.train.paths import Kind, PathConfig

RECIPES = Path(__file__).parent.parent / "recipes"


@dataclass(frozen=True)
class System:
    path: Kind
    policy: Policy
    capsules: bool = False
    causal: bool = True
    settings: dict[str, Any] = field(default_factory=dict)  # its own defaults; [for.SYSTEM] and key=value override them


SYSTEMS = {
    "offline": System("offline", Offline()),
    "offline-bidirectional": System("offline", Offline(), causal=False),
    "wait-k": System("wait-k", WaitK()),
    "multi-path": System("multi-path", WaitK()),
    "disturbed": System("disturbed", WaitK()),  # a control for ped: its paths without its capsules
    "ped": System("disturbed", PostEvaluation(), capsules=True),
    # a control for ped: its capsules without its paths
    "ped-multi-path": System("multi-path", PostEvaluation(), capsules=True),
    "aligned": System(  # the degree is trained on word alignments; a larger scale lets it come near 0 and 1
        "multi-path",
        PostEvaluation(),
        capsules=True,
        settings={
            "losses": {"segment": 0.0, "token": 0.0, "degree": 0.2},
            "model": {"capsules": {"scale": 3.0}},
        },
    ),
}
DECIDED_BY_SYSTEM = ("paths.kind", "model.causal")
DECIDED_BY_DATA = ("model.source_vocabulary", "model.target_vocabulary")
ADDED_LATER = ("model.judge",)
LEAST = {
    "data": {"toy": 0, "longest": 1, "ratio": 0, "asr_like": 0, "align_most": 0},
    "text": {"size": 1, "least": 1, "sample": 1},
    "paths": {"k": 1, "r": 1},
    "losses": {"smoothing": 0, "segment": 0, "token": 0, "degree": 0},
    "train": {
        **dict.fromkeys(("updates", "tokens", "buckets", "split", "log", "validate", "save", "keep", "average"), 1),
        **dict.fromkeys(("minutes", "rate", "new_rate", "warmup", "weight_decay", "clip", "seed"), 0),
    },
}


@dataclass(frozen=True)
class DataConfig:
    source: str = "source"  # file extension of the source language
    target: str = "target"
    train: tuple[str, ...] = ()  # NAME means the files NAME.SOURCE and NAME.TARGET, plain, .gz or .xz
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()  # only tokenised and stored as text
    toy: int = 0  # so many sentences of the toy language instead of files
    origin: str = ""  # where the files come from, for the error about missing ones
    published: tuple[str, ...] = ()  # "NAME LINES": a corpus with another number of lines is refused
    most: tuple[str, ...] = ()  # "NAME LINES": of this training corpus only so many lines, drawn at random
    longest: int = 250  # tokens; training pairs with a longer side are dropped
    ratio: float = 0.0  # training pairs with one side so many times longer than the other are dropped; 0 keeps all
    unique: bool = False  # drop repeated training pairs
    asr_like: float = 0.0  # the share of training sources that are made like the output of speech recognition
    align: bool = False  # align the tokens of training pairs, for system=aligned
    align_most: int = 0  # only of so many pairs, drawn at random; 0: of all

    def lines(self, setting: Literal["published", "most"]) -> dict[str, int]:
        """The number of lines by corpus that one of these settings names."""
        found: dict[str, int] = {}
        for entry in getattr(self, setting):
            if not (parts := re.fullmatch(r"(.+) ([0-9]{1,15})", entry)):
                raise UsageError(f"data.{setting} has {entry!r}, but must have names with numbers, as in 'train 1000'")
            found[parts[1]] = int(parts[2])
        return found


@dataclass(frozen=True)
class TextConfig:
    # word-final: pieces that mark the end of a word; sentencepiece: pieces that mark its beginning; words: whole words
    kind: Literal["word-final", "sentencepiece", "words"] = "word-final"
    joint: bool = True  # one vocabulary for both languages
    size: int = 16000  # pieces
    least: int = 1  # words: how often one must occur to be known
    sample: int = 1_000_000  # lines to learn pieces from
    tokenise: Literal["none", "moses", "moses-aggressive"] = "none"
    lower: bool = False


@dataclass(frozen=True)
class TrainConfig:
    updates: int = 100_000
    # end after so much time, if it comes before the last update; 0 for no limit. With it, an interrupted run goes on with the time it has
    # left, but not to the same result
    minutes: float = 0.0
    tokens: int = 8192  # per bucket: number of sentences times the longest side
    buckets: int = 1  # per update; a bucket has sentences of similar length
    split: int = 1  # compute a bucket in so many parts, to fit into memory; the result is the same
    rate: float = 5e-4  # highest learning rate
    new_rate: float = 0.0  # the same for capsules and constraint heads; 0: like the rest
    warmup: int = 4000
    schedule: Literal["inverse-sqrt", "linear", "cosine"] = "inverse-sqrt"
    weight_decay: float = 0.0
    clip: float = 0.0  # longest gradient; 0 for no limit
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU
    compile: bool = False  # compile layers and record CUDA graphs; takes a minute or two, for long runs on a GPU
    seed: int = 1
    log: int = 100  # updates between two lines of the log
    validate: int = 1000
    save: int = 1000
    keep: int = 10  # newest checkpoints kept
    average: int = 5  # newest checkpoints averaged into the final model
    tensorboard: bool = False


@dataclass(frozen=True)
class Recipe:
    name: str
    about: str
    system: str
    policy: str  # the policy that the model folder will recommend
    data: DataConfig
    text: TextConfig
    model: ModelConfig  # vocabulary sizes are 0 until the data is known
    paths: PathConfig
    losses: LossConfig
    train: TrainConfig

    @classmethod
    def load(
        cls, name_or_path: str | Path, overrides: Sequence[str] = (), architecture: ModelConfig | None = None
    ) -> Recipe:
        """The recipe of that name, or in that file, with `key=value` changes.

        `architecture` is that of a converted model to train further; then the recipe decides only dropout and capsules.
        """
        path = _find(name_or_path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"recipe {path} is not valid TOML: {error}") from None
        changes: dict[str, Any] = {}
        for override in overrides:
            _merge(changes, _parse(override))
        return _resolve(path.stem, values, changes, architecture)

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """The resolved recipe that a run was started with."""
        values = read_json(path, TrainingError)
        try:
            recipe = build(cls, values | {"model": ModelConfig.from_dict(values.get("model"))}, "recipe")
            _check(recipe)
        except UsageError as error:
            raise TrainingError(f"{path} is damaged: {error}") from None
        return recipe

    def to_dict(self) -> dict[str, Any]:
        return plain(self)

    def sized(self, source_vocabulary: int, target_vocabulary: int) -> ModelConfig:
        return dataclasses.replace(self.model, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)


@dataclass(frozen=True)
class _File:
    """The top level of a recipe file."""

    about: str = ""
    system: str = "multi-path"
    policy: str = ""  # default: that of the system
    data: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, Any] = field(default_factory=dict)
    losses: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


def plain(config: Any) -> dict[str, Any]:
    """The settings of a dataclass as JSON would have them: lists in place of tuples."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return values


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """The settings that two resolved recipes disagree on, as 'key: old → new'."""
    found: list[str] = []
    for key in [*old, *(key for key in new if key not in old)]:
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key}: {before} → {after}")
    return found


def available() -> list[str]:
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def _find(name_or_path: str | Path) -> Path:
    packaged = RECIPES / f"{name_or_path}.toml"
    if packaged.is_file():
        return packaged
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise UsageError(f"no recipe file {path}; the built-in recipes are {', '.join(available())}")
    raise unknown("recipe", str(name_or_path), available())


def _parse(override: str) -> dict[str, Any]:
    """`train.updates=500` as a nested table; a value that is not TOML is text, so that quotes can be left out."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"'{override}' is not a change to a recipe; write key=value, as in train.updates=500")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return typing.cast("dict[str, Any]", parsed)


def _merge(into: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _resolve(name: str, values: dict[str, Any], changes: dict[str, Any], architecture: ModelConfig | None) -> Recipe:
    special = require_table("for", values.pop("for", {}))
    chosen = typed("system", changes.get("system", values.get("system", "multi-path")), str)
    for system in (chosen, *special):
        if system not in SYSTEMS:
            raise unknown("system", system, SYSTEMS)
    for system, settings in special.items():
        require_table(f"for.{system}", settings)
    _merge(values, copy.deepcopy(SYSTEMS[chosen].settings))
    _merge(values, special.get(chosen, {}))
    _merge(values, changes)
    for key in values:
        if key not in typing.get_type_hints(_File):
            if full := _full_names(key):
                raise UsageError(f"no setting or section named '{key}'; did you mean {' or '.join(full)}?")
            raise unknown("setting or section", key, typing.get_type_hints(_File))
    file = build(_File, values, "recipe")
    system = SYSTEMS[file.system]
    reasons = {
        **dict.fromkeys(DECIDED_BY_SYSTEM, f"system={'|'.join(SYSTEMS)}"),
        **dict.fromkeys(DECIDED_BY_DATA, "the prepared data"),
        **dict.fromkeys(ADDED_LATER, "'bethink judge', which adds it to a trained model"),
        **{f"model.{key}": "'bethink convert', for models of other tools" for key in CONVERTED},
    }
    for key, reason in reasons.items():
        section, setting = key.split(".")
        if setting in getattr(file, section):
            raise UsageError(f"{key} cannot be set by itself; it follows from {reason}")
    text, paths = build(TextConfig, file.text, "text"), build(PathConfig, {**file.paths, "kind": system.path}, "paths")
    counted = "token" if text.kind == "words" else paths.unit  # where every token is a word there is nothing to choose
    recipe = Recipe(
        name=name,
        about=file.about,
        system=file.system,
        policy=str(parse_policy(file.policy) if file.policy else system.policy.counting(counted)),
        data=build(DataConfig, file.data, "data"),
        text=text,
        model=_model(file.model, system, architecture),
        paths=paths,
        losses=build(LossConfig, file.losses, "losses"),
        train=build(TrainConfig, file.train, "train"),
    )
    _check(recipe)
    return recipe


def _model(settings: dict[str, Any], system: System, architecture: ModelConfig | None) -> ModelConfig:
    """The model that the settings describe, or that of another tool with the settings that a recipe may change."""
    for key, value in settings.items() if architecture else ():
        if key not in ("dropout", "capsules") and value != (has := getattr(architecture, key, value)):
            raise UsageError(
                f"model.{key} is {value}, but the converted model to train further has {has}; leave it out of the recipe"
            )
    width = architecture.width if architecture else settings.get("width", ModelConfig.width)
    sizes = {"width": width // 2, "hidden": 2 * width} if type(width) is int and width > 1 else {}  # defaults
    capsules = build(
        CapsuleConfig, sizes | require_table("model.capsules", settings.get("capsules", {})), "model.capsules"
    )
    base = architecture.to_dict() | {"judge": 0} if architecture else {}
    decided = {"source_vocabulary": 0, "target_vocabulary": 0, "causal": system.causal}
    return build(
        ModelConfig, {**base, **settings, **decided, "capsules": capsules if system.capsules else None}, "model"
    )


def _check(recipe: Recipe) -> None:
    """Refuse settings that are out of range, and settings that do not go together."""
    if recipe.system not in SYSTEMS:
        raise unknown("system", recipe.system, SYSTEMS)
    for section, limits in LEAST.items():
        require_least(section, getattr(recipe, section), limits)
    recipe.data.lines("published")  # raises if the setting is wrong
    if missing := [name for name in recipe.data.lines("most") if name not in recipe.data.train]:
        raise UsageError(f"data.most names {missing[0]!r}, which is not among data.train")
    if recipe.data.asr_like > 1:
        raise UsageError(f"data.asr_like is {recipe.data.asr_like}, but is a share, at most 1")
    if recipe.train.seed >= 1 << 63:
        raise UsageError(f"train.seed is {recipe.train.seed}, but must be below 2^63")
    if recipe.losses.smoothing >= 1:
        raise UsageError(f"losses.smoothing is {recipe.losses.smoothing}, but must be below 1")
    if recipe.data.longest > LONGEST - LONGEST_PROMPT:
        raise UsageError(
            f"data.longest is {recipe.data.longest}, but a model takes at most {LONGEST - LONGEST_PROMPT} tokens"
        )
    if recipe.train.average > recipe.train.keep:
        raise UsageError(
            f"train.average={recipe.train.average} checkpoints cannot be averaged if train.keep={recipe.train.keep}"
        )
    if recipe.model.share == "all" and not recipe.text.joint and not recipe.model.converted:
        raise UsageError("model.share='all' needs text.joint=true; use model.share=target for two vocabularies")
    if recipe.losses.degree and recipe.model.capsules is None:
        raise UsageError(f"losses.degree teaches capsules, which system={recipe.system} has not; use system=aligned")
    if not recipe.data.toy and not (recipe.data.train and recipe.data.dev):
        raise UsageError(f"recipe {recipe.name} names no corpora; set data.train and data.dev, or data.toy")


def _full_names(setting: str) -> list[str]:
    """The settings of that name, each with its section."""
    sections = {name: kind for name, kind in typing.get_type_hints(Recipe).items() if dataclasses.is_dataclass(kind)}
    sections["model.capsules"] = CapsuleConfig
    found = [f"{name}.{setting}" for name, kind in sections.items() if setting in typing.get_type_hints(kind)]
    return [name for name in found if name not in (*DECIDED_BY_SYSTEM, *DECIDED_BY_DATA, *ADDED_LATER)]
