#!/usr/bin/env bash
# The bundled model, trained further for live speech on two CPU cores: runs/de-en-live.sh CORPORA
# CORPORA holds the files that the recipe de-en-live names. Training takes about an hour, the judge a quarter of one. runs/de-en-live/judged is the model
# to bundle; copying it to models/de-en is a deliberate act and is not done here. A script that was cut short can be started again.
#   FROM=DIR         the model to begin with (default: models/de-en)
#   LINES_JUDGED=N   lines that the judge learns from; SETTINGS, PYTHON and AT as in runs/steps.sh
set -euo pipefail
cd "$(dirname "$0")/.."
corpora=${1:?"usage: runs/de-en-live.sh CORPORA"} from=${FROM:-models/de-en} recipe=de-en-live
source runs/steps.sh

prepare --like "$from"
bethink train "$recipe" "${settings[@]}" --data "$data" --run "$work/run" --from "$from"
bethink average "$work/run" --with "$from" # half of each: what it knew of parliament is kept
[ -d "$work/exported" ] || bethink export "$work/run" --to "$work/exported" --precision int8 --name de-en
[ -d "$work/judged" ] || bethink judge "$work/exported" --source "$data" --to "$work/judged" --lines "${LINES_JUDGED:-8000}"
