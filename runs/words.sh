#!/usr/bin/env bash
# What does counting words gain? The bundled model's recommended policy beside wait-k by word: runs/words.sh CORPORA [OUT]
# CORPORA is as for runs/de-en.sh. Of the development sets the first 1,000 lines; the test sets whole: nothing was chosen on them. Takes about 40 minutes
# on two cores; `python runs/live_pages.py words OUT` and `python runs/report.py` then make docs/results/words.md.
set -euo pipefail
corpora=$1 out=${2:-results/words}
bethink=${BETHINK:-bethink}
measure() { # measure NAME SOURCE REFERENCE
    "$bethink" evaluate --source "$2" --reference "$3" --out "$out/$1" \
        --policy offline weigh:k=1,r=8,rate=1,rho=0.99,care=0.97,unit=word wait-k:4,1,unit=word
}
mkdir -p "$out"
for set in europarl.dev newstest2013; do
    for side in de en; do head -n 1000 "$corpora/de-en/$set.$side" >"$out/$set.$side"; done
    measure "$set" "$out/$set".{de,en}
done
measure newstest2015 "$corpora"/de-en/newstest2015.{de,en}
measure iwslt14 "$corpora"/en-de/iwslt14.test.raw.{de,en}
curve() { # curve NAME POLICY…: newstest2015 at several latencies
    "$bethink" evaluate --source "$corpora"/de-en/newstest2015.de --reference "$corpora"/de-en/newstest2015.en --out "$out/curves/$1" --policy "${@:2}"
}
weigh=weigh:k=1,r=8,rate=1.0
curve simple {wait-k:1,wait-k:2,wait-k:3,wait-k:5,wait-k:7}",1,unit=word" adaptive:{0.6,0.8,1}",0,10,unit=word"
curve ours $weigh,rho=0.9,unit=word $weigh,rho=0.98,care={0.5,0.8},unit=word $weigh,rho=0.99,care={0.95,0.98},unit=word pe:k={1,3,5}",rho=0.3,r=6,unit=word"
"$bethink" plot "$out"/curves/* "$out/newstest2015" --out docs/figures/de-en-words.svg
