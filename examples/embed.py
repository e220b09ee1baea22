"""Translate and print every word as soon as it is final.

python examples/embed.py [MODEL] < text          one speaker, while the text arrives (default: the model de-en, German)
python examples/embed.py MODEL FILE FILE …       several speakers at the same time, with one engine
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bethink import Action, AsyncTranslator, Translator


def one(model: str) -> None:
    for step in Translator(model).stream(sys.stdin):
        if step.action is Action.WRITE:
            print(step.text, end="", flush=True)
    print()


async def several(model: str, files: list[Path]) -> None:
    async with AsyncTranslator(model) as live:

        async def follow(file: Path) -> None:
            async for step in live.stream(file.read_text(encoding="utf-8").splitlines(keepends=True)):
                if step.action is Action.WRITE and step.text:
                    print(f"{file.name}: {step.text.strip()}", flush=True)

        await asyncio.gather(*map(follow, files))


model, *files = sys.argv[1:] or ["de-en"]
if files:
    asyncio.run(several(model, [Path(file) for file in files]))
else:
    one(model)
