#!/usr/bin/env bash
# The paper's English to German, from an empty disk to the table: IWSLT14 in the usual preparation, 10 thousand byte pairs, Transformer-Small.
#
#   runs/iwslt14-en-de.sh CORPORA          CORPORA is filled with train, valid and test, each .en and .de, unless they are there
#
# As in runs/de-en.sh every system is fine-tuned from one multi-path model for as many updates.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=iwslt14-en-de corpora=${1:?"usage: runs/iwslt14-en-de.sh CORPORA"}
source runs/steps.sh

mkdir -p "$corpora"
if [ ! -f "$corpora/test.en" ]; then # the last that is written
    if [ ! -d "$corpora/de-en" ]; then
        mkdir -p "$corpora/de-en.part"
        curl -fLsS http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz | tar -xz -C "$corpora/de-en.part" --strip-components 1
        mv "$corpora/de-en.part" "$corpora/de-en"
    fi
    "$python" runs/iwslt14.py "$corpora/de-en" "$corpora"
fi

prepare
base
fine_tune "$data" 20000
judges "$data" 6000
results paper
