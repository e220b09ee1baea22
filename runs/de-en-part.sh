# A third of Europarl and half of Tatoeba, word-aligned, a tenth of the sources as speech is written down, in the vocabulary of a model at
# hand, `before`; and lines for a judge to hear. For the scripts that go on with a trained model, which set `all` and `before` and source it.
# shellcheck shell=bash disable=SC2034,SC2154
data=$at/data/de-en-part corpora=$at/data/de-en-part-text

# every n-th hundred of lines, so that sentences which run on into the next one belong together
part() {
    local files=("$all/de-en/$1.train.$3"*)
    xzcat --force "${files[0]}" | awk "int(NR / 100) % $2 == 0"
}
if [ ! -d "$corpora" ]; then
    mkdir -p "$corpora.part"
    for side in de en; do
        part europarl 3 $side >"$corpora.part/europarl.train.$side"
        part tatoeba 2 $side >"$corpora.part/tatoeba.train.$side"
        for set in newstest2013 newstest2015; do cp "$all/de-en/$set.$side" "$corpora.part"; done
    done
    mv "$corpora.part" "$corpora"
fi
compare prepare "$data" de-en data.asr_like=0.1 data.align=true "${settings[@]}" --data "$corpora" --like "$before"

if [ ! -f "$data/heard.de" ]; then
    cat "$corpora"/{europarl,tatoeba}.train.de | shuf --head-count 24000 --random-source=<(yes) | sed '0~10 { s/.*/\L&/; s/[.,;:!?]//g }' >"$data/heard.de.part"
    mv "$data/heard.de.part" "$data/heard.de"
fi
