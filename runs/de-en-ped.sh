#!/usr/bin/env bash
# PED beside its controls, German to English, two seeds each: docs/results/de-en-ped.md. One GPU, 23 minutes of
# training on an H200; evaluating all that runs/systems.py names takes longer than that.
#
#   runs/de-en-ped.sh CORPORA              CORPORA holds de-en (europarl.train, tatoeba.train, each .de and .en, or .xz; europarl.dev,
#                                          newstest2013, newstest2015) and en-de/iwslt14.test.raw.{de,en}
#
# The paper's 6 + 6 layers, post-norm. From one multi-path model: more of the same and PED, with capsules that reach the output and a learning
# rate of their own, each with two seeds. Of pe's rho the best on the development sets is taken. Others of runs/systems.py, such as disturbed
# and ped-released: SYSTEMS="…".
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en name=de-en-ped all=${1:?"usage: runs/de-en-ped.sh CORPORA"} corpora=$1/de-en
source runs/steps.sh
work=$at/runs/$name
SYSTEMS=${SYSTEMS:-multi-path multi-path-again ped ped-again}
read -r -a systems <<<"--systems $SYSTEMS"
paper=(model.encoder_layers=6 model.decoder_layers=6 model.norm=post train.clip=1.0 train.average=1 train.keep=1 train.seed=7)

prepare
base "${paper[@]}" train.updates=6000 train.rate=7e-4 train.warmup=2000 train.save=3000 train.validate=2000 train.compile=true
compare train "$work" "$recipe" "${units[@]}" "${paper[@]}" train.compile=true train.new_rate=2e-3 "${settings[@]}" --data "$data" --from "$work/base" \
    --updates "${UPDATES:-4000}" --rate 5e-4 --warmup 500 --lanes "${LANES:-1}" "${systems[@]}"
for side in de en; do head -n 1500 "$all/en-de/iwslt14.test.raw.$side" >"$work/iwslt14.$side"; done
results standard --limit 500 --dev europarl.dev "$corpora"/europarl.dev.{de,en} --dev newstest2013 "$corpora"/newstest2013.{de,en} \
    --test newstest2015 "$corpora"/newstest2015.{de,en} --test iwslt14 "$work"/iwslt14.{de,en}
