#!/usr/bin/env bash
# The paper's German to English, from an empty disk to the table: WMT15, 32 thousand joint byte pairs, Transformer-Base.
#
#   runs/wmt15-de-en.sh CORPORA            CORPORA is filled with the training sets of WMT15 and newstest2013 and 2015, unless they are there
#
# As in runs/de-en.sh every system is fine-tuned from one multi-path model for as many updates.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=wmt15-de-en corpora=${1:?"usage: runs/wmt15-de-en.sh CORPORA"}
source runs/steps.sh

# fetch NAME URL: the German-English files of an archive, whatever folder they lie in there
fetch() {
    [ -f "$corpora/$1.de" ] && [ -f "$corpora/$1.en" ] && return
    curl -fLsS "https://www.statmt.org/$2" |
        tar -xz -C "$corpora" --wildcards --no-anchored --transform 's|.*/||;s|$|.part|' "$1.de" "$1.en"
    for side in de en; do mv "$corpora/$1.$side.part" "$corpora/$1.$side"; done
}
mkdir -p "$corpora"
fetch europarl-v7.de-en europarl/v7/de-en.tgz
fetch commoncrawl.de-en wmt13/training-parallel-commoncrawl.tgz
fetch news-commentary-v10.de-en wmt15/training-parallel-nc-v10.tgz
for year in 13 15; do
    for side in src:de ref:en; do
        file=$corpora/newstest20$year.${side#*:}
        [ -f "$file" ] && continue
        "$python" -m sacrebleu -t "wmt$year" -l de-en --echo "${side%:*}" >"$file.part"
        mv "$file.part" "$file"
    done
done

prepare
base
fine_tune "$data" 50000
judges "$data" 6000
results paper
