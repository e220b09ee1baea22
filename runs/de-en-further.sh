#!/usr/bin/env bash
# The bundled model, trained further on two CPU cores: runs/de-en-further.sh CORPORA
# CORPORA is as for runs/de-en-live.sh, without mono.de. Training ends after 66 minutes, and the judge takes a quarter of an hour. The weights are three
# quarters of the new ones and a quarter of the old: the new ones alone lose 0.2 BLEU on parliament. runs/de-en-further/judged is the model to bundle;
# copying it to models/de-en is a deliberate act and is not done here. A script that was cut short can be started again.
#   FROM=DIR         the model to begin with (default: models/de-en)
#   LINES_JUDGED=N   lines that the judge learns from; SETTINGS, PYTHON and AT as in runs/steps.sh
set -euo pipefail
cd "$(dirname "$0")/.."
corpora=${1:?"usage: runs/de-en-further.sh CORPORA"} from=${FROM:-models/de-en} recipe=de-en-live
source runs/steps.sh
work=$at/runs/de-en-further data=$at/data/de-en-further

settings=(
    'data.most=["europarl.train 30000", "tatoeba.train 45000", "ethereum 6000", "game-cataclysm 6000"]' data.{asr_like=0.4,align_most=0}
    train.{precision=bfloat16,tokens=2048,buckets=3,updates=640,minutes=66,rate=1.5e-4,new_rate=0,warmup=25,log=10,validate=320,save=80,keep=3}
    "${settings[@]}"
)
prepare --like "$from"
bethink train "$recipe" "${settings[@]}" --data "$data" --run "$work/run" --from "$from"
if [ ! -d "$work/exported" ]; then
    bethink average "$work/run" --with "$from" --share 0.75
    bethink export "$work/run" --to "$work/exported" --precision int8 --name de-en
fi
[ -d "$work/judged" ] || bethink judge "$work/exported" --source "$data" --to "$work/judged" --lines "${LINES_JUDGED:-8000}"
