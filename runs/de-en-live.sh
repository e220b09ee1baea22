#!/usr/bin/env bash
# The bundled model: a teacher, its translations, the student and its judge: runs/de-en-live.sh CORPORA
# CORPORA holds Europarl, Tatoeba and newstest2013 (europarl.train, tatoeba.train, newstest2013, each .de and .en), what runs/gather.py writes (pairs, and
# in mono.de German sentences without a translation), and what runs/made_pairs.py writes. Training takes half an hour of an H200 (give it
# SETTINGS=train.compile=true), the judge a quarter of one. runs/de-en-live/judged is the model to bundle; copying it to models/de-en is a deliberate act
# and is not done here. A script that was cut short can be started again.
#   FROM=DIR         the model to begin with (default: models/de-en)
#   LINES_JUDGED=N   lines that the judge learns from; SETTINGS, PYTHON and AT as in runs/steps.sh
set -euo pipefail
cd "$(dirname "$0")/.."
corpora=${1:?"usage: runs/de-en-live.sh CORPORA"} from=${FROM:-models/de-en} recipe=de-en-live
source runs/steps.sh

learn() { # learn SYSTEM DATA RUN [option …]
    bethink train "$recipe" "system=$1" "${settings[@]}" --data "$2" --run "$work/$3" "${@:4}"
}
prepare --like "$from"
learn offline-bidirectional "$data" teacher --from "$from" --grow
[ -d "$data-taught" ] || bethink distill "$work/teacher" --data "$data" --keep --also "$corpora/mono.de" --to "$data-taught"
learn multi-path "$data-taught" student --from "$from" --grow
learn aligned "$data-taught" aligned --from "$work/student"
[ -d "$work/exported" ] || bethink export "$work/aligned" --to "$work/exported" --precision int8 --name de-en
[ -d "$work/judged" ] || bethink judge "$work/exported" --source "$data" --to "$work/judged" --lines "${LINES_JUDGED:-8000}"
