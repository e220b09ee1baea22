#!/usr/bin/env bash
# English to German, to the table: Europarl and Tatoeba, then talks; one GPU.
#
#   runs/en-de.sh CORPORA                  CORPORA holds the folders de-en and en-de that the recipe names
#
# The branches go on with talks, four times over, and everyday sentences, which they are not to forget.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=en-de corpora=${1:?"usage: runs/en-de.sh CORPORA"}
source runs/steps.sh

talks='"en-de/iwslt14.train_subset"'
prepare
trunk train.updates=20000 train.average=1 train.compile=true
compare prepare "$data-talks" "$recipe" "data.train=[$talks,$talks,$talks,$talks,\"de-en/tatoeba.train\"]" data.unique=false \
    "${settings[@]}" --data "$corpora" --like "$data"
branches "$data-talks" 1500 model.dropout=0.3 train.compile=true
results paper
