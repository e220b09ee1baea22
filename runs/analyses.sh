#!/usr/bin/env bash
# Every analysis of one model, from its folder to docs/figures/analyses (numbers and pictures) and docs/results/analyses.md (tables).
#
#   runs/analyses.sh                            the toy model, on sentences of its own language
#   runs/analyses.sh de-en CORPORA [RUN]        a real model; CORPORA holds de-en/newstest2013.{de,en}, de-en/europarl.dev.de and alignments/rwth.{de,en,talp};
#   runs/analyses.sh toy "" RUN                 RUN is the training run, whose constraint heads `overlap` asks; without it, no overlap
#
# ANALYSES="alignment overlap" makes only these.
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:-toy} corpora=${2:-} run=${3:-}
bethink=${BETHINK:-bethink}
analyses=${ANALYSES:-degree alignment overlap ablation robustness calibration}
lines=500 # of the test set that is translated; `robustness` takes fewer
out=docs/figures/analyses/$model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# The systems that are compared: the paper's baselines, a fixed schedule as fast as ours as a control, what the model recommends, and
# post-evaluation where that is something else.
recommended=$(python -c "from bethink import Translator; print(Translator('$model').policy)")
at() { for k in "${@:2}"; do sed "s/:k=[0-9]*/:k=$k/" <<<"$1"; done; }
mapfile -t fixed < <(at wait-k:k=1 1 3 5 7 9 13 17)
mapfile -t paced < <(at wait-k:k=1,rate=1.2 1 3 5 7)
mapfile -t own < <(at "$recommended" 1 2 4 6)
adaptive=(adaptive:0.4,0,10 adaptive:0.6,0,10 adaptive:0.8,0,10 adaptive:1,0,10 adaptive:1,0.4,10)
systems=("wait-k=fixed" "wait-k with rate 1.2=paced" "adaptive-wait-k=adaptive" "${recommended%%:*}=own")
whole=(offline)
felt=(wait-k:3 adaptive:0.6,0,10 "$recommended")
if [[ $recommended != pe:* ]]; then
    mapfile -t pe < <(at pe:k=1,rho=0.3,r=6 1 3 5 7)
    systems+=("pe=pe")
    felt+=("${pe[0]}")
else
    pe=()
fi
systems+=("offline=whole")

if [ -n "$corpora" ]; then
    profile=standard
    aligned=(--source "$corpora/alignments/rwth.de" --target "$corpora/alignments/rwth.en" --alignment "$corpora/alignments/rwth.talp")
    head -n "$lines" "$corpora/de-en/newstest2013.de" >"$work/source"
    head -n "$lines" "$corpora/de-en/newstest2013.en" >"$work/target"
else
    profile=paper
    aligned=()
    python - "$work" "$lines" <<'PYTHON'
import sys
from pathlib import Path
from bethink import toy
pairs = list(toy.sentences(int(sys.argv[2]), seed=102))
for side in ("source", "target"):
    (Path(sys.argv[1]) / side).write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs), "utf-8")
PYTHON
fi
text=(--source "$work/source" --target "$work/target")

wanted() { [[ " $analyses " == *" $1 "* ]]; }
analyze() { if wanted "$1"; then "$bethink" analyze "$@" --model "$model" --threads 1 --out "$out"; fi; }

compare_systems() {
    local named=() system
    for system in "${systems[@]}"; do
        local -n policies=${system##*=}
        "$bethink" evaluate --model "$model" --threads 1 --source "$work/source" --reference "$work/target" --policy "${policies[@]}" \
            --out "$work/${system##*=}"
        named+=("${system%=*}=$work/${system##*=}")
    done
    "$bethink" analyze ablation "${named[@]}" --profile "$profile" --out "$out"
}

# One core translates, another looks at gold alignments and noise.
if wanted ablation; then compare_systems & else true & fi
analyze degree ${aligned[@]+"${aligned[@]}"} --limit 508 --policy "${felt[@]}"
analyze alignment ${aligned[@]+"${aligned[@]}"} --limit 508 --policy "${fixed[@]}" "${paced[@]}" "${adaptive[@]}" "${own[@]}" ${pe[@]+"${pe[@]}"}
analyze robustness "${text[@]}" --limit 300 --policy wait-k:5 "$recommended"
if [ -n "$corpora" ]; then # the toy model has no judge
    analyze calibration --source "$corpora"/de-en/{newstest2013,europarl.dev}.de --limit 400 --policy "$recommended" wait-k:3
fi
wait $!
if [ -n "$run" ] && wanted overlap; then
    "$bethink" analyze overlap --model "$run" ${aligned[@]+"${aligned[@]}"} --out "$out"
fi

rm -f "$out"/*.md
python runs/report.py
