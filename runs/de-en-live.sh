#!/usr/bin/env bash
# The bundled model, trained further for live speech on two CPU cores: runs/de-en-live.sh CORPORA [OUT]
# CORPORA holds the files that the recipe de-en-live names. Training takes about an hour, the judge a quarter of one. OUT/judged is the model to
# bundle; copying it to models/de-en is a deliberate act and is not done here. A script that was cut short can be started again.
set -euo pipefail
corpora=${1:?"usage: runs/de-en-live.sh CORPORA [OUT]"} out=${2:-runs/de-en-live}
bethink=${BETHINK:-bethink} from=${FROM:-models/de-en}
read -r -a settings <<<"${SETTINGS:-}"
"$bethink" prepare de-en-live "${settings[@]}" --data "$corpora" --out "$out/data" --like "$from"
"$bethink" train de-en-live "${settings[@]}" --data "$out/data" --run "$out/run" --from "$from"
[ -d "$out/exported" ] || "$bethink" export "$out/run" --to "$out/exported" --precision int8 --name de-en
[ -d "$out/judged" ] || "$bethink" judge "$out/exported" --source "$out/data" --to "$out/judged" --lines "${LINES_JUDGED:-8000}"
