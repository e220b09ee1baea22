#!/usr/bin/env bash
# What do words in place of tokens gain, all else equal? runs/de-en-words.sh CORPORA
# Two models from nothing, on the same text, for as many updates, with the same seed: one whose pieces mark where a word begins, trained along paths
# in tokens, and one whose pieces mark where it ends, trained along paths in words; each gets a judge and runs with policies that count as it was
# trained. CORPORA is as for runs/de-en-ped.sh. Two GPU lanes of five minutes (SETTINGS=train.compile=true), the rest half an hour of 12 cores.
# `python runs/report.py` then makes "Words in place of tokens" in docs/results/experiments.md.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en corpora=${1:?"usage: runs/de-en-words.sh CORPORA"}/de-en talks=$1/en-de/iwslt14.test.raw
source runs/steps.sh
work=$at/runs/de-en-words
budget=(train.updates=5000 train.schedule=linear train.rate=1e-3 train.warmup=1000 train.average=1 train.seed=11)

mkdir -p "$work/sets"
for side in de en; do
    for set in europarl.dev newstest2013; do head -n 1000 "$corpora/$set.$side" >"$work/sets/$set.$side"; done
    cp "$corpora/newstest2015.$side" "$work/sets"
    head -n 1500 "$talks.$side" >"$work/sets/iwslt14.$side"
done
one() { # one UNIT KIND
    local unit=$1 own=$at/data/de-en-$1 policy set rest
    local -a policies=(offline wait-k:{1,2,3,4,5,7,9},1,"unit=$unit" wait-k:{1,3,5},1.2,"unit=$unit" adaptive:{0.6,0.8,1},0,10,"unit=$unit")
    for rest in rho=0.9 rho=0.98,care=0.{5,8} rho=0.99,care=0.9{5,8}; do policies+=("weigh:k=1,r=8,rate=1.0,$rest,unit=$unit"); done
    for rest in k=1,r=4 k=2,r=6 k=3,r=8; do policies+=("weigh:$rest,rate=1.2,rho=0.98,unit=$unit"); done
    bethink prepare "$recipe" "text.kind=$2" "${settings[@]}" --data "$corpora" --out "$own"
    bethink train "$recipe" "paths.unit=$unit" "${budget[@]}" "${settings[@]}" --data "$own" --run "$work/$unit"
    [ -d "$work/exported/$unit" ] || bethink export "$work/$unit" --to "$work/exported/$unit" --precision int8 --name "$unit"
    [ -d "$work/judged/$unit" ] || bethink judge "$work/exported/$unit" --source "$own" --to "$work/judged/$unit" --lines 6000
    for set in europarl.dev newstest2013 newstest2015 iwslt14; do
        for policy in "${policies[@]}"; do
            [ -d "$work/results/$set/$unit/$policy" ] || bethink evaluate --model "$work/judged/$unit" --source "$work/sets/$set.de" \
                --reference "$work/sets/$set.en" --out "$work/results/$set/$unit/$policy" --policy "$policy"
        done
    done
}
one token sentencepiece
one word word-final
"$python" runs/against.py words-tokens "$work/results" word token
