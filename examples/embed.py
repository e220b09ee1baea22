"""Translate what comes in on standard input and print every word as soon as it is final: python embed.py [MODEL] < text."""

import sys

from bethink import Action, Translator

translator = Translator(sys.argv[1] if len(sys.argv) > 1 else "toy")
for step in translator.stream(sys.stdin):
    if step.action is Action.WRITE:
        print(step.text, end="", flush=True)
print()
