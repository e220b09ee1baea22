#!/usr/bin/env bash
# Does it drift, stall or loop in an hour of talk? runs/longform.sh CORPORA [OUT]
# The first 9,000 source words of the two development sets (an hour at 150 words per minute), each as one text: as written, in lower case,
# without punctuation, and without both. Takes about two minutes per run on one core. All scores are in OUT/SET-VIEW/results.json;
# `python runs/live_pages.py longform OUT` and `python runs/report.py` then make docs/results/longform.md.
set -euo pipefail
corpora=$1 out=${2:-results/longform}
bethink=${BETHINK:-bethink}
mkdir -p "$out"
for set in europarl.dev newstest2013; do
    lines=$(awk '{ words += NF } words >= 9000 { print NR; exit }' "$corpora/$set.de")
    for side in de en; do head -n "$lines" "$corpora/$set.$side" >"$out/$set.$side"; done
    for view in "" --lower --unpunctuated "--lower --unpunctuated"; do
        # shellcheck disable=SC2086
        "$bethink" evaluate --longform $view --source "$out/$set.de" --reference "$out/$set.en" \
            --out "$out/$set-$(echo "written $view" | tr -d ' ')"
    done
    "$bethink" evaluate --source "$out/$set.de" --reference "$out/$set.en" --out "$out/$set-sentences" # boundaries given
done
