#!/usr/bin/env bash
# PED repaired and trained longer, German to English: the models of "PED repaired and trained longer" in docs/results/experiments.md. One GPU,
# 25 minutes of an H200.
#
#   runs/de-en-ped.sh CORPORA              CORPORA holds the folder de-en (europarl.train, tatoeba.train, europarl.dev, newstest2013 and
#                                          newstest2015, each .de and .en, or .xz)
#
# The paper's 6 + 6 layers, post-norm. From one multi-path model: more of the same, disturbed paths alone, PED with capsules that reach the
# output and a learning rate of their own, and PED as released. Of pe's rho the best on the development sets is taken; the published table
# has the 25, 50 and 75 % quantiles of max Δd instead, which `bethink analyze degree` prints.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en name=de-en-ped corpora=${1:?"usage: runs/de-en-ped.sh CORPORA"}/de-en
source runs/steps.sh
work=$at/runs/$name
SYSTEMS=${SYSTEMS:-multi-path disturbed ped ped-released}
read -r -a systems <<<"--systems $SYSTEMS"
paper=(model.encoder_layers=6 model.decoder_layers=6 model.norm=post train.clip=1.0 train.average=1 train.keep=1)

prepare
base "${paper[@]}" train.updates=6000 train.rate=7e-4 train.warmup=2000 train.save=3000 train.validate=2000 train.compile=true
compare train "$work" "$recipe" "${units[@]}" "${paper[@]}" train.compile=true train.new_rate=2e-3 "${settings[@]}" --data "$data" --from "$work/base" \
    --updates "${UPDATES:-4000}" --rate 5e-4 --warmup 500 --lanes "${LANES:-1}" "${systems[@]}"
results standard --dev europarl.dev "$corpora"/europarl.dev.{de,en} --dev newstest2013 "$corpora"/newstest2013.{de,en}
