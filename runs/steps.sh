# The steps from corpora to a table, for the scripts beside this file, which set `recipe` and `corpora` and source it. Each step leaves alone
# what is done, so a script that was cut short can be started again.
#
#   SETTINGS="key=value …"     changes to the recipe, for data, trunk and branches alike, as in train.compile=true on a GPU
#   BRANCH=N                   updates of each branch, in place of the script's own number
#   SYSTEMS="multi-path ped"   only some of the systems in runs/systems.py
#   LANES=4                    so many branches are trained side by side, if the GPU has room, and judged and evaluated while others train
#   JOBS=8 BATCH=256 DEVICE=cuda    how results are computed: processes, sentences at a time, device
#   AT=DIR                     where data, runs and docs are written (default: this tree)
# shellcheck shell=bash disable=SC2034,SC2154

python=${PYTHON:-python}
at=${AT:-.}
data=$at/data/$recipe
work=$at/runs/$recipe
read -r -a settings <<<"${SETTINGS:-}"
read -r -a systems <<<"${SYSTEMS:+--systems $SYSTEMS}"
read -r -a machine <<<"--jobs ${JOBS:-1} ${BATCH:+--batch $BATCH} ${DEVICE:+--device $DEVICE}"
lanes=${LANES:-1} beside=() # processes that go on while the script does, and end when it ends
trap 'kill ${beside[@]+"${beside[@]}"} 2>/dev/null || true' EXIT

bethink() { "$python" -m bethink "$@"; }
compare() { "$python" runs/compare.py "$@"; }

# aside VERB …: compared before the script goes on or, where there are lanes, while it does
aside() {
    if [ "$lanes" -eq 1 ]; then
        compare "$@"
    else
        "$python" runs/compare.py "$@" ${beside[@]+--beside "${beside[@]}"} &
        beside+=($!)
    fi
}

# prepare [key=value …]
prepare() { bethink prepare "$recipe" "$@" "${settings[@]}" --data "$corpora" --out "$data"; }

# trunk [key=value …]: multi-path, from the start
trunk() { bethink train "$recipe" "$@" "${settings[@]}" --data "$data" --run "$work/trunk"; }

# branches DATA UPDATES [key=value …]: every system, from the trunk, with as many updates each
branches() {
    local from=$1 updates=${BRANCH:-$2}
    shift 2
    aside train "$work" "$recipe" "$@" "${settings[@]}" --data "$from" --from "$work/trunk" --updates "$updates" --lanes "$lanes" \
        "${systems[@]}"
}

# judges TEXT LINES: the systems that are another with a judge added; the text may be prepared data
judges() { aside judge "$work" --source "$1" --lines "$2" "${systems[@]}"; }

# results PROFILE [--dev NAME SOURCE REFERENCE …]: by default the recipe's own development and test sets, as they were prepared
results() {
    local profile=$1 process
    shift
    if [ $# -eq 0 ]; then
        set -- --dev dev "$data/dev.source.txt" "$data/dev.target.txt" --test test "$data/test.source.txt" "$data/test.target.txt"
    fi
    aside evaluate "$work" "$@" "${machine[@]}" "${systems[@]}"
    for process in ${beside[@]+"${beside[@]}"}; do wait "$process"; done # one that failed ends the script
    compare tables "$work" --name "${name:-$recipe-comparison}" --profile "$profile" --root "$at" "${systems[@]}"
}
