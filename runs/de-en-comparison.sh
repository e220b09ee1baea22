#!/usr/bin/env bash
# German to English, every system beside every other, with a shipped model for a trunk: one GPU.
#
#   runs/de-en-comparison.sh CORPORA [MODEL]     CORPORA holds the folder de-en, as runs/de-en.sh wants it, and en-de/iwslt14.test.raw.{de,en};
#                                                MODEL is the trunk (default: the bundled model)
#
# Each branch takes up the model's weights, read back from its graphs, without capsules and without judge, and goes on with a third
# of Europarl and half of Tatoeba, a tenth of the sources as speech is written down. The whole training, from nothing, is runs/de-en.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en all=${1:?"usage: runs/de-en-comparison.sh CORPORA [MODEL]"} before=${2:-models/de-en}
source runs/steps.sh
source runs/de-en-part.sh
work=$at/runs/de-en-comparison

compare trunk "$work" --like "$before"
branches "$data" 1000 train.rate=7.5e-4 # a branch begins with 0.4 of this rate
judges "$data/heard.de" 6000

results standard --limit 1000 \
    --dev europarl.dev "$all"/de-en/europarl.dev.{de,en} --dev newstest2013 "$all"/de-en/newstest2013.{de,en} \
    --test newstest2015 "$all"/de-en/newstest2015.{de,en} --test iwslt14 "$all"/en-de/iwslt14.test.raw.{de,en}
