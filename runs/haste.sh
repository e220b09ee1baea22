#!/usr/bin/env bash
# How often does each policy show a word before the source that it translates? runs/haste.sh CORPORA [OUT]
# The bundled model on the first 800 lines of newstest2013. The aligner also learns from the other lines, Europarl dev and 6,000 lines of the
# training text. Takes ten minutes on one core; `python runs/live_pages.py haste OUT` and `python runs/report.py` then make docs/results/haste.md.
set -euo pipefail
corpora=$1 out=${2:-results/haste}
bethink=${BETHINK:-bethink}
recommended=weigh:k=1,r=8,rate=1.0,rho=0.99,care=0.97,unit=word
mkdir -p "$out"
for side in de en; do
    head -n 800 "$corpora/newstest2013.$side" >"$out/test.$side"
    tail -n +801 "$corpora/newstest2013.$side" >"$out/more.$side"
    cat "$corpora/europarl.dev.$side" >>"$out/more.$side"
    xz -dc "$corpora/europarl.train.$side.xz" | sed -n '1,6000p;6000q' >>"$out/more.$side" || [ "${PIPESTATUS[1]}" = 0 ]
done
"$bethink" evaluate --source "$out/test.de" --reference "$out/test.en" --out "$out" \
    --policy offline wait-k:1,1,unit=word wait-k:3,1,unit=word wait-k:5,1,unit=word "$recommended" "${recommended/care=0.97/care=0.7}" \
    --haste --align-text "$out/more.de" "$out/more.en"
