#!/usr/bin/env bash
# The paper's English to Vietnamese, from an empty disk to the table: IWSLT15 as released by Stanford, words, Transformer-Small.
#
#   runs/iwslt15-en-vi.sh CORPORA          CORPORA is filled with train, tst2012 and tst2013, each .en and .vi, unless they are there
#
# As in runs/de-en.sh every system is fine-tuned from one multi-path model for as many updates.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=iwslt15-en-vi corpora=${1:?"usage: runs/iwslt15-en-vi.sh CORPORA"}
source runs/steps.sh

mkdir -p "$corpora"
for file in {train,tst2012,tst2013}.{en,vi}; do
    [ -f "$corpora/$file" ] && continue
    curl -fLsS "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/$file" -o "$corpora/$file.part"
    mv "$corpora/$file.part" "$corpora/$file"
done

prepare
base
fine_tune "$data" 15000
judges "$data" 6000
results paper
