#!/usr/bin/env bash
# English to German, to the table: Europarl and Tatoeba, then talks; one GPU.
#
#   runs/en-de.sh CORPORA                  CORPORA holds the folders de-en and en-de that the recipe names
#
# The systems are fine-tuned on talks, four times over, and everyday sentences, which they are not to forget. How long and with how much
# dropout was chosen by the loss on the development set (runs/logs/en-de-choice.json).
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=en-de corpora=${1:?"usage: runs/en-de.sh CORPORA"}
source runs/steps.sh

talks='"en-de/iwslt14.train_subset"' heard=("$corpora"/en-de/iwslt14.train_subset.en*)
prepare
base train.updates=14000 train.average=1 train.compile=true
bethink prepare "$recipe" "data.train=[$talks,$talks,$talks,$talks,\"de-en/tatoeba.train\"]" data.unique=false "${settings[@]}" \
    --data "$corpora" --out "$data-talks" --like "$data"
fine_tune "$data-talks" 800 model.dropout=0.2
judges "${heard[0]}" 5000
results paper --limit 300 --dev iwslt14.valid "$data"/dev.{source,target}.txt --test iwslt14.test "$data"/test.{source,target}.txt
