"""Imports point one way, PyTorch stays where it belongs, and asking for help loads nothing heavy."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import bethink

SOURCE = Path(bethink.__file__).parent

# A part may import its own layer and those above it in this list, never those below.
LAYERS = [
    ["errors", "checked", "files", "policy", "trace", "text", "toy", "recognisers"],
    ["listen"],
    ["model.config"],
    ["folder"],
    ["model"],
    ["backend"],
    ["stream", "engine"],
    ["session"],
    ["translator"],
    ["engine_thread", "aio"],
    ["evaluate", "analysis", "serve", "train", "export"],
    ["convert"],
    ["client"],
    ["cli", "__main__", "simuleval"],
]
RANKS = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}

WITH_TORCH = ("model", "train", "export", "convert", "backend.torch")
WITH_EXTRAS = (*WITH_TORCH, "serve")
OPTIONAL = {"torch", "safetensors", "sacrebleu", "sacremoses", "matplotlib", "onnx", "tensorboard", "eflomal", "yaml"}
OPTIONAL |= {"fastapi", "starlette", "uvicorn", "websockets", "prometheus_client", "ray"}
FOUNDATION = {
    "errors": set(),
    "checked": set(),
    "files": set(),
    "policy": {"numpy"},
    "trace": set(),
    "text": {"sentencepiece"},
}


@dataclass(frozen=True)
class Import:
    module: str  # who imports: "" is bethink itself
    target: str  # what: "bethink.text", "torch.nn"
    eager: bool  # whether it happens as soon as the module is loaded

    @property
    def inside(self) -> str | None:
        """The module of bethink that is imported, if it is one."""
        return self.target.removeprefix("bethink").lstrip(".") if self.package == "bethink" else None

    @property
    def package(self) -> str:
        return self.target.partition(".")[0]


@cache
def modules() -> dict[str, Path]:
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def imports() -> list[Import]:
    return [found for name, path in modules().items() for found in imports_of(name, ast.parse(path.read_text("utf-8")))]


def imports_of(module: str, tree: ast.AST, eager: bool = True) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, eager) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module or 'bethink'} imports relatively; write the whole name"
            yield from (Import(module, resolve(node.module or "", alias.name), eager) for alias in node.names)
        else:
            lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_for_types(node)
            yield from imports_of(module, node, eager and not lazy)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def resolve(source: str, name: str) -> str:
    """`from bethink import toy` is an import of bethink.toy, `from bethink.toy import X` of bethink.toy as well."""
    inner = f"{source}.{name}".removeprefix("bethink.")
    return f"bethink.{inner}" if source.startswith("bethink") and inner in modules() else source


def part_of(module: str) -> str:
    """The longest name in LAYERS that the module is or lies in."""
    within = [part for part in RANKS if module == part or module.startswith(f"{part}.")]
    assert within, f"bethink.{module} is in no layer; give it a place in LAYERS"
    return max(within, key=len)


def belongs(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places) and module != "model.config"


def loaded_with(module: str) -> set[str]:
    """All that importing a module loads: modules of bethink and, by their names, packages of others."""
    todo, seen = [module], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in modules():
            todo += [name.rpartition(".")[0]]
            todo += [found.package if found.inside is None else found.inside for found in EAGER.get(name, [])]
    return seen


EAGER: dict[str, list[Import]] = {}
for _found in imports():
    if _found.eager:
        EAGER.setdefault(_found.module, []).append(_found)


def test_the_walk_sees_what_is_there() -> None:
    assert {"", "text.segment", "policy"} <= set(modules())
    assert Import("text.segment", "bethink.text.clean", eager=True) in imports()
    assert Import("", "bethink.translator", eager=False) in imports()
    assert {"sentencepiece", "text.clean", "errors"} <= loaded_with("text")


def test_imports_point_one_way() -> None:
    """Also inside functions: this is about who may know whom, not about when."""
    wrong = []
    graph: dict[str, set[str]] = {}
    for found in imports():
        if not found.module or not found.inside:
            continue  # the package itself offers names from above, each loaded when it is asked for
        part, target = part_of(found.module), part_of(found.inside)
        if RANKS[target] > RANKS[part]:
            wrong.append(f"{found.module} imports {found.inside}")
        if target != part:
            graph.setdefault(part, set()).add(target)
    assert not wrong
    graphlib.TopologicalSorter(graph).prepare()  # raises if parts of one layer import each other in a circle


def test_evaluate_analysis_and_serve_never_import_train() -> None:
    apart = ("evaluate", "analysis", "serve")
    assert not [f for f in imports() if part_of(f.module or "errors") in apart and belongs(f.inside or "", ("train",))]


def test_evaluation_works_without_the_analyses() -> None:
    """They belong to the `train` extra; scores and curves of a light installation need none of them."""
    inside = [found for found in imports() if belongs(found.inside or "", ("analysis",))]
    assert inside
    assert {part_of(found.module) for found in inside} <= {"analysis", "train", "cli"}


def test_torch_stays_where_it_belongs() -> None:
    strays = {found.module for found in imports() if found.package == "torch" and not belongs(found.module, WITH_TORCH)}
    assert not strays


def test_what_is_optional_is_never_loaded_unasked() -> None:
    loaded = {module: loaded_with(module) & OPTIONAL for module in modules() if not belongs(module, WITH_EXTRAS)}
    assert not {module: packages for module, packages in loaded.items() if packages}


def test_the_foundation_stands_on_little() -> None:
    for found in imports():
        part = part_of(found.module or "toy")
        if part in FOUNDATION and found.inside is None and found.package not in sys.stdlib_module_names:
            assert found.package in FOUNDATION[part], f"{found.module} imports {found.package}"


@pytest.mark.parametrize(
    "statement",
    [
        "import bethink",
        "import runpy; sys.argv = ['bethink', '--help']; runpy.run_module('bethink', run_name='__main__')",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement: str) -> None:
    heavy = ["torch", "onnxruntime", "matplotlib", "sacrebleu", "sentencepiece", "fastapi", "numpy", "rich"]
    program = f"""
import sys
try:
    {statement}
except SystemExit as exit:
    assert not exit.code, exit.code
print("loaded:", *(name for name in {heavy} if name in sys.modules))
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(SOURCE.parent)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "loaded:"
