#!/usr/bin/env bash
# The judge on equal terms: runs/judge.sh CORPORA [OUT]
# The bundled model with its judge, with random verdicts that accept as often, by probability alone, with another judge, and with fixed schedules of
# several rates, all by word, on the test sets. CORPORA is as for runs/de-en-ped.sh. Takes two hours of one core; makes docs/results/de-en-judge.md.
#   JOBS=2           processes
set -euo pipefail
cd "$(dirname "$0")/.."
corpora=${1:?"usage: runs/judge.sh CORPORA [OUT]"} out=${2:-results/judge} python=${PYTHON:-python}
systems=(--systems live live-again)
mkdir -p "$out"
[ -d "$out/live" ] || cp -r models/de-en "$out/live"
for side in de en; do head -n 1500 "$corpora/en-de/iwslt14.test.raw.$side" >"$out/iwslt14.$side"; done
if [ ! -d "$out/live-again" ]; then # another seed, other text
    for name in europarl tatoeba; do xz -dc "$corpora/de-en/$name.train.de.xz" | shuf -n 4000 --random-source=models/de-en/encoder.onnx; done >"$out/judged.de"
    "$python" -m bethink judge models/de-en --source "$out/judged.de" --lines 8000 --seed 5 --to "$out/live-again"
fi
"$python" runs/compare.py evaluate "$out" "${systems[@]}" --jobs "${JOBS:-1}" --test newstest2015 "$corpora"/de-en/newstest2015.{de,en} \
    --test iwslt14 "$out"/iwslt14.{de,en}
"$python" runs/compare.py tables "$out" "${systems[@]}" --name de-en-judge --base live
