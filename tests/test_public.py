"""The names that are promised, wrong arguments told in one sentence, and install commands that fit the installation."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import bethink
from bethink import Translator, errors
from bethink.errors import MissingExtra, UsageError, install_command


@pytest.fixture(scope="module")
def toy() -> Translator:
    return Translator("toy", threads=1)


def test_dir_lists_every_promised_name() -> None:
    assert set(bethink.__all__) <= set(dir(bethink))
    assert all(getattr(bethink, name) is not None for name in bethink.__all__)


@pytest.mark.parametrize("model", [None, 3, b"toy"])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(UsageError, match=f"the model must be a name or a folder.* not {type(model).__name__}"):
        Translator(model)


@pytest.mark.parametrize("policy", [3, ["offline"], object()])
def test_what_is_no_policy(policy: Any, toy: Translator) -> None:
    for use in (
        lambda: Translator("toy", policy=policy),
        lambda: toy.translate("te himu", policy),
        lambda: toy.session(policy),
        lambda: toy.stream(["te himu"], policy),
        lambda: next(toy.translate_many(["te himu"], policy)),
    ):
        with pytest.raises(UsageError, match=f"the policy must be .* not {type(policy).__name__}"):
            use()


@pytest.mark.parametrize("chunks", [None, 3])
def test_what_is_no_text(chunks: Any, toy: Translator) -> None:
    with pytest.raises(UsageError, match=f"the text must be an iterable of str.* not {type(chunks).__name__}"):
        toy.stream(chunks)


@pytest.mark.parametrize("threads", [-1, 99999, 1.5, "2"])
def test_threads_have_a_bound(threads: Any) -> None:
    with pytest.raises(UsageError, match=f"threads is {threads}, expected 1 to"):
        Translator("toy", threads=threads)


def test_one_text_gives_a_str_and_many_give_translations(toy: Translator) -> None:
    text = toy.translate("te himu nakoru")
    [translation] = toy.translate_many(["te himu nakoru"])
    assert isinstance(text, str)
    assert isinstance(translation, bethink.Translation)
    assert translation.text.replace(" .", ".") == text  # of words, `translate` alone closes up punctuation


class Installed:
    """A distribution that came from somewhere; `install_command` asks for nothing else."""

    def __init__(self, came_from: dict[str, Any] | None) -> None:
        self._record = None if came_from is None else json.dumps(came_from)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._record


WHEEL = "file:///tmp/my%20wheels/bethink-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("came_from", "wanted"),
    [
        (None, "bethink[serve]"),
        ({"url": WHEEL, "archive_info": {}}, f"bethink[serve] @ {WHEEL}"),
        ({"url": "file:///home/me/bethink", "dir_info": {}}, "bethink[serve] @ file:///home/me/bethink"),
        (
            {"url": "https://example.org/b.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "bethink[serve] @ git+https://example.org/b.git@abc",
        ),
    ],
    ids=["index", "wheel", "folder", "git"],
)
def test_the_install_command_fits_where_it_came_from(
    came_from: dict[str, Any] | None, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "bethink" / "errors.py"))
    monkeypatch.setattr(metadata, "distribution", {"bethink": Installed(came_from)}.__getitem__)
    *command, requirement = shlex.split(install_command("serve"))
    assert command[-1] == "install"
    assert requirement == wanted


def test_a_clone_is_installed_from_itself() -> None:
    clone = Path(__file__).parents[1]
    assert shlex.split(install_command("train"))[-4:] == ["-c", f"{clone}/constraints.txt", "-e", f"{clone}[train]"]
    assert str(MissingExtra("flying", "train")).endswith(f"extra; install it with: {install_command('train')}")


def test_the_command_is_for_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert install_command("serve").startswith("pip install ")
    monkeypatch.setenv("PATH", "/nowhere")
    assert shlex.split(install_command("serve"))[:4] == [sys.executable, "-m", "pip", "install"]
