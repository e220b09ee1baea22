#!/usr/bin/env bash
# An offline model in another tool's layout, converted, judged and streamed, beside the bundled causal model: runs/converted.sh CORPORA
# CORPORA is as for runs/de-en.sh. No such model can be had here without a download, so one is made: the bundled model's weights, written as the hub lays
# out NLLB (runs/hub_layout.py), trained with a bidirectional encoder on whole sentences for three quarters of an hour on one core, and written again. From
# then on it is what a user would download. Of both development sets the first 1,000 lines. A script that was cut short can be started again.
#   LINES_JUDGED=N   lines that the judge learns from; PYTHON and AT as in runs/steps.sh
set -euo pipefail
cd "$(dirname "$0")/.."
corpora=${1:?"usage: runs/converted.sh CORPORA"} recipe=converted
source runs/steps.sh
languages=(--source deu_Latn --target eng_Latn)

[ -d "$work/first" ] || "$python" runs/hub_layout.py models/de-en "$work/first"
[ -d "$work/begin" ] || bethink convert "$work/first" --to "$work/begin" "${languages[@]}" --weights
bethink prepare runs/converted.toml --like "$work/begin" --data "$corpora/de-en" --out "$data"
bethink train runs/converted.toml --data "$data" --run "$work/run" --from "$work/begin"
[ -d "$work/hub" ] || "$python" runs/hub_layout.py "$work/run/model" "$work/hub"
[ -d "$work/de-en-hub" ] || bethink convert "$work/hub" --to "$work/de-en-hub" "${languages[@]}"
[ -d "$work/float32" ] || bethink convert "$work/hub" --to "$work/float32" "${languages[@]}" --precision float32
[ -d "$work/judged" ] || bethink judge "$work/de-en-hub" --source "$data" --to "$work/judged" --lines "${LINES_JUDGED:-6000}"
"$python" benchmarks/vs_transformers.py "$work/hub" --languages deu_Latn eng_Latn --source "$corpora/de-en/newstest2013.de" \
    --json "$at/benchmarks/results/vs_transformers-de-en.json"

wait_k=(wait-k:3,1,unit=word wait-k:4,1,unit=word wait-k:5,1,unit=word wait-k:6,1,unit=word)
weigh=(weigh:k=1,r=8,rate=1,rho=0.98,care=0.8,unit=word weigh:k=1,r=8,rate=1,rho=0.99,care=0.95,unit=word)
more=(weigh:k=1,r=16,rate=1,rho=0.97,care=0.8,unit=word weigh:k=1,r=8,rate=1,rho=0.98,care=0.9,unit=word weigh:k=2,r=6,rate=1,rho=0.95,care=0.9,unit=word)
for set in europarl.dev newstest2013; do
    for side in de en; do head -n 1000 "$corpora/de-en/$set.$side" >"$work/$set.$side"; done
    for model in "$work/judged" models/de-en; do
        bethink evaluate --model "$model" --source "$work/$set.de" --reference "$work/$set.en" --out "$work/results/$set/$(basename "$model")" \
            --policy offline "${weigh[@]}" "${wait_k[@]}" "${more[@]}"
    done
    bethink evaluate --model "$work/float32" --source "$work/$set.de" --reference "$work/$set.en" --out "$work/results/$set/float32" --policy offline
done
"$python" runs/live_pages.py converted "$work/results" # then `python runs/report.py` makes docs/results/converted.md
