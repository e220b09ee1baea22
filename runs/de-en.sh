#!/usr/bin/env bash
# German to English, from the corpora to a model to bundle and the tables: one GPU.
#
#   runs/de-en.sh CORPORA                  CORPORA holds the folders de-en (europarl.train, tatoeba.train, europarl.dev, newstest2013 and
#                                          newstest2015, each .de and .en, or .xz) and en-de (iwslt14.test.raw)
#
# The base model is multi-path, so that one model knows every latency; its training ends at 32,500 updates, before its learning rate has come
# down. Each system to compare is fine-tuned from it for as many updates and brings the rate down to nothing. The model to bundle is the
# system `judged`: `aligned`, whose degree learns from word alignments, with a judge that learned from its translations.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en name=de-en-from-scratch corpora=${1:?"usage: runs/de-en.sh CORPORA"}/de-en
source runs/steps.sh

prepare data.align=true
base train.updates=32500 train.average=1 train.keep=3 train.save=2500 train.validate=2500 train.compile=true
fine_tune "$data" 3000 train.compile=true

draw() { xzcat --force "$corpora/$1.train.de"* | shuf --head-count "$2" --random-source=<(yes); } # the same lines each time
if [ ! -f "$data/heard.de" ]; then
    { draw europarl 2250 && draw tatoeba 750; } >"$data/heard.de.part"
    mv "$data/heard.de.part" "$data/heard.de"
fi
judges "$data/heard.de" 3000

sets=(--dev europarl.dev "$corpora"/europarl.dev.{de,en} --dev newstest2013 "$corpora"/newstest2013.{de,en}
    --test newstest2015 "$corpora"/newstest2015.{de,en} --test iwslt14 "$corpora"/../en-de/iwslt14.test.raw.{de,en})
results standard "${sets[@]}"

# Copying `bundled` to models/de-en, which users get and runs/examples.py shows, is a deliberate act: it is not done here. After it:
# python runs/report.py && python runs/examples.py
[ -d "$work/bundled" ] || bethink export "$work/judged" --to "$work/bundled" --precision int8 --name de-en \
    --policy weigh:k=1,r=8,rate=1.0,rho=0.99,care=0.95,unit=word
compare evaluate "$work" "${sets[@]}" "${machine[@]}" --systems bundled
compare tables "$work" --name de-en --base bundled --root "$at" --systems bundled
