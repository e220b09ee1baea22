#!/usr/bin/env bash
# German to English, from the corpora to the bundled model and the tables: one GPU.
#
#   runs/de-en.sh CORPORA                  CORPORA holds the folders de-en (europarl.train, tatoeba.train, europarl.dev, newstest2013 and
#                                          newstest2015, each .de and .en, or .xz) and en-de (iwslt14.test.raw)
#
# The trunk is multi-path, so that one model knows every latency; it ends at 32,500 updates, before its learning rate has come down. A branch
# begins with its weights and brings the rate down to nothing: every system to compare is such a branch of equal length. The model to bundle is
# the branch `aligned`, which gets capsules whose degree learns from word alignments, and then a judge, who learns from what it says. (The
# one bundled now went this way before, with half of its paths along the alignments; runs/de-en-shipped.sh went on with it.)
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en name=de-en-from-scratch corpora=${1:?"usage: runs/de-en.sh CORPORA"}/de-en
source runs/steps.sh

prepare data.align=true
trunk train.updates=32500 train.average=1 train.keep=3 train.save=2500 train.validate=2500 train.compile=true
branches "$data" 3000 train.compile=true

draw() { xzcat --force "$corpora/$1.train.de"* | shuf --head-count "$2" --random-source=<(yes); } # the same lines each time
if [ ! -f "$data/heard.de" ]; then
    { draw europarl 2250 && draw tatoeba 750; } >"$data/heard.de.part"
    mv "$data/heard.de.part" "$data/heard.de"
fi
judges "$data/heard.de" 3000

results standard \
    --dev europarl.dev "$corpora"/europarl.dev.{de,en} --dev newstest2013 "$corpora"/newstest2013.{de,en} \
    --test newstest2015 "$corpora"/newstest2015.{de,en} --test iwslt14 "$corpora"/../en-de/iwslt14.test.raw.{de,en}

# Copying shipped to models/de-en, which users get and runs/examples.py shows, is a deliberate act: it is not done here.
[ -d "$work/shipped" ] || bethink export "$work/judged" --to "$work/shipped" --precision int8 --name de-en \
    --policy weigh:k=3,r=8,rate=1.2,rho=0.98
for test in europarl.dev newstest2013; do
    bethink evaluate --model "$work/shipped" --source "$corpora/$test.de" --reference "$corpora/$test.en" --out "$at/results/$test" \
        --policy offline wait-k:1 wait-k:3 wait-k:5 wait-k:7 wait-k:9 \
        wait-k:k=1,rate=1.2 wait-k:k=3,rate=1.2 wait-k:k=5,rate=1.2 wait-k:k=7,rate=1.2 \
        weigh:k=1,r=4,rho=0.98 weigh:k=2,r=6,rho=0.98 weigh:k=3,r=8,rho=0.98 weigh:k=5,r=12,rho=0.98 weigh:k=7,r=12,rho=0.98 \
        adaptive:rho_1=0.8,rho_k=0 adaptive:rho_1=1,rho_k=0.2 adaptive:rho_1=1,rho_k=0.6 pe:k=1,rho=0.3,r=2 pe:k=5,rho=0.3,r=2
done
"$python" runs/de_en.py "$at"/results/{europarl.dev,newstest2013}
"$python" runs/examples.py
