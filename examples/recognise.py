"""Prints what a speech recogniser hears in a WAV file, guesses that change included, as JSON lines for `bethink listen`.

    pip install moonshine-voice==0.0.73                # an English recogniser with its model, 90 MB; better in an environment of its own
    espeak-ng -v en-us -s 150 -f talk.txt -w talk.wav  # or a recording: 16 bit, mono
    python examples/recognise.py talk.wav | bethink listen

The lines have vosk's form: {"partial": …} while somebody speaks, {"text": …} after a pause. `at` is how much audio the recogniser had
been given by then, in milliseconds, so a recording gives the same lines whenever it is made.
"""

import array
import json
import sys
import wave

from moonshine_voice import ModelArch, Transcriber, get_model_path
from moonshine_voice.transcriber import LineCompleted, LineTextChanged, TranscriptEventListener

CHUNK = 0.1  # seconds of audio at a time


class Printer(TranscriptEventListener):
    at = 0

    def on_line_text_changed(self, event: LineTextChanged) -> None:
        self.print(partial=event.line.text)

    def on_line_completed(self, event: LineCompleted) -> None:
        self.print(text=event.line.text)

    def print(self, **record: str) -> None:
        print(json.dumps(record | {"at": self.at}, ensure_ascii=False), flush=True)


def main(path: str) -> None:
    with wave.open(path) as file:
        rate = file.getframerate()
        samples = [value / 32768 for value in array.array("h", file.readframes(file.getnframes()))]
    printer = Printer()
    stream = Transcriber(get_model_path("tiny-en"), ModelArch.TINY, update_interval=0.5).create_stream()
    stream.add_listener(printer)
    stream.start()
    for start in range(0, len(samples), round(CHUNK * rate)):
        chunk = samples[start : start + round(CHUNK * rate)]
        printer.at = round(1000 * (start + len(chunk)) / rate)
        stream.add_audio(chunk, rate)
    stream.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
