#!/usr/bin/env bash
# Every analysis of one model, from its folder to docs/analyses.md and docs/figures/analyses: tables, numbers and pictures.
#
#   runs/analyses.sh                            the toy model, on sentences of its own language: about two minutes on two cores
#   runs/analyses.sh de-en CORPORA [RUN]        a real model; CORPORA holds de-en/newstest2013.{de,en} and alignments/rwth.{de,en,talp};
#   runs/analyses.sh toy "" RUN                 RUN is the training run, whose constraint heads `overlap` asks
#
# Policies beside wait-k and adaptive-wait-k: POLICIES="pe:k=1,rho=0.2,r=8 …" (default: what the model recommends).
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:-toy} corpora=${2:-} run=${3:-}
bethink=${BETHINK:-bethink}
out=docs/figures/analyses/$model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

read -r -a own <<<"${POLICIES:-$(python -c "from bethink import Translator; print(Translator('$model').policy)")}"
fixed=(wait-k:1 wait-k:3 wait-k:5 wait-k:7 wait-k:9)
adaptive=(adaptive:0.4,0,10 adaptive:0.6,0,10 adaptive:0.8,0,10 adaptive:1,0.4,10)

if [ -n "$corpora" ]; then
    aligned=(--source "$corpora/alignments/rwth.de" --target "$corpora/alignments/rwth.en" --alignment "$corpora/alignments/rwth.talp")
    head -n 500 "$corpora/de-en/newstest2013.de" >"$work/source"
    head -n 500 "$corpora/de-en/newstest2013.en" >"$work/target"
else
    aligned=()
    python - "$work" <<'PYTHON'
import sys
from pathlib import Path
from bethink import toy
pairs = list(toy.sentences(500, seed=102))
for side in ("source", "target"):
    (Path(sys.argv[1]) / side).write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs), "utf-8")
PYTHON
fi
text=(--source "$work/source" --target "$work/target")

analyze() { "$bethink" analyze "$1" "${@:2}" --out "$out"; }

analyze degree --model "$model" ${aligned[@]+"${aligned[@]}"} --limit 500 --policy adaptive:0.6,0,10 "${own[@]}"
analyze alignment --model "$model" ${aligned[@]+"${aligned[@]}"}
analyze robustness --model "$model" "${text[@]}" --policy wait-k:5 "${own[@]}"
analyze lag --model "$model" --source "$work/source" --policy wait-k:3 adaptive:0.6,0,10 "${own[@]}"
analyze speed --model "$model" --threads 1 --policy wait-k:3 adaptive:0.6,0,10 "${own[@]}"
if [ -n "$run" ]; then
    analyze overlap --model "$run" ${aligned[@]+"${aligned[@]}"}
fi
for kind in fixed adaptive own; do
    declare -n policies=$kind
    "$bethink" evaluate --model "$model" --source "$work/source" --reference "$work/target" --policy "${policies[@]}" --out "$work/$kind"
done
analyze ablation "wait-k=$work/fixed" "adaptive-wait-k=$work/adaptive" "own=$work/own"

{
    echo "# Analyses"
    echo
    echo "Made by \`runs/analyses.sh\`; the numbers are those of the JSON files beside the pictures. [method.md](method.md) says what they mean."
    for folder in docs/figures/analyses/*/; do
        name=$(basename "$folder")
        echo
        echo "## Model \`$name\`"
        for part in degree alignment overlap ablation robustness lag speed; do
            [ -f "$folder/$part.md" ] || continue
            printf '\n### %s\n\n![%s](figures/analyses/%s/%s.svg)\n\n' "$part" "$part" "$name" "$part"
            cat "$folder/$part.md"
        done
    done
} >"$work/analyses.md"
mv "$work/analyses.md" docs/analyses.md
chmod 644 docs/analyses.md
