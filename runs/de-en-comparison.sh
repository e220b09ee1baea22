#!/usr/bin/env bash
# German to English, every system beside every other, with the bundled model for a trunk: one GPU.
#
#   runs/de-en-comparison.sh CORPORA       CORPORA holds the folder de-en, as runs/de-en.sh wants it, and en-de/iwslt14.test.raw.{de,en}
#
# Each branch takes up the bundled model's weights, read back from its graphs, without capsules and without judge, and goes on with a third
# of Europarl and half of Tatoeba, a tenth of the sources as speech is written down. The whole training, from nothing, is runs/de-en.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=de-en all=${1:?"usage: runs/de-en-comparison.sh CORPORA"}
source runs/steps.sh
data=$at/data/de-en-part work=$at/runs/de-en-comparison corpora=$at/data/de-en-part-text

# every n-th hundred of lines, so that sentences which run on into the next one belong together
part() { xzcat --force "$all/de-en/$1.train.$3"* | awk "int(NR / 100) % $2 == 0"; }
if [ ! -d "$corpora" ]; then
    mkdir -p "$corpora.part"
    for side in de en; do
        part europarl 3 $side >"$corpora.part/europarl.train.$side"
        part tatoeba 2 $side >"$corpora.part/tatoeba.train.$side"
        for set in newstest2013 newstest2015; do cp "$all/de-en/$set.$side" "$corpora.part"; done
    done
    mv "$corpora.part" "$corpora"
fi
compare prepare "$data" de-en data.rough=0.1 data.align=true "${settings[@]}" --data "$corpora" --like models/de-en
compare trunk "$work" --like models/de-en
branches "$data" 1000 train.rate=7.5e-4 train.compile=true # a branch begins with 0.4 of this rate

if [ ! -f "$data/heard.de" ]; then
    cat "$corpora"/{europarl,tatoeba}.train.de | shuf --head-count 24000 --random-source=<(yes) | sed '0~10 { s/.*/\L&/; s/[.,;:!?]//g }' >"$data/heard.de.part"
    mv "$data/heard.de.part" "$data/heard.de"
fi
judges "$data/heard.de" 6000

results standard --limit 1000 \
    --dev europarl.dev "$all"/de-en/europarl.dev.{de,en} --dev newstest2013 "$all"/de-en/newstest2013.{de,en} \
    --test newstest2015 "$all"/de-en/newstest2015.{de,en} --test iwslt14 "$all"/en-de/iwslt14.test.raw.{de,en}
