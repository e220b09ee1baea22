#!/usr/bin/env bash
# The bundled German-English model, from one that was bundled before it: it learns to hear speech as it is written down live, on the paths of
# multi-path, and gets a judge who heard more. One GPU.
#
#   runs/de-en-shipped.sh CORPORA MODEL          CORPORA as runs/de-en-comparison.sh wants it; MODEL has capsules of scale 3, as those of
#                                                runs/de-en.sh
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: runs/de-en-shipped.sh CORPORA MODEL"
recipe=de-en all=${1:?$usage} before=${2:?$usage}
source runs/steps.sh
source runs/de-en-part.sh
work=$at/runs/de-en-shipped

[ -d "$work/degree/model" ] || bethink train de-en system=aligned train.updates="${BRANCH:-3000}" train.schedule=linear train.rate=3e-4 train.warmup=200 \
    train.validate="${BRANCH:-3000}" train.average=1 train.keep=1 train.seed=5 "${settings[@]}" \
    --data "$data" --from "$before" --run "$work/degree"
[ -d "$work/judged" ] || bethink judge "$work/degree" --source "$data/heard.de" --lines 24000 --to "$work/judged"
[ -d "$work/shipped" ] || bethink export "$work/judged" --to "$work/shipped" --precision int8 --name de-en \
    --policy weigh:k=3,r=8,rate=1.2,rho=0.98

evaluate() { # NAME FILE POLICY …
    bethink evaluate --model "$work/shipped" --source "$2.de" --reference "$2.en" --out "$at/results/$1" --policy "${@:3}" \
        offline wait-k:{3,5,7,9} wait-k:k=3,rate=1.2 weigh:k=1,r=4,rho=0.98 weigh:k=3,r=8,rho=0.98 weigh:k=5,r=12,rho=0.98
}
more=(wait-k:1 wait-k:k=5,rate=1.2 weigh:k=7,r=12,rho=0.98)
evaluate europarl.dev "$all/de-en/europarl.dev" "${more[@]}" weigh:k=8,r=12,rho=0.98
evaluate newstest2013 "$all/de-en/newstest2013" "${more[@]}"
evaluate newstest2015 "$all/de-en/newstest2015"
evaluate iwslt14 "$all/en-de/iwslt14.test.raw"

cat <<END
$work/shipped is ready. To give it to users, which is a deliberate act, copy it over models/de-en, all but the card, and then:
    python runs/de_en.py $at/results/{europarl.dev,newstest2013,newstest2015,iwslt14} && python runs/examples.py
END
