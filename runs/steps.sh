# The steps from corpora to a table, for the scripts beside this file, which set `recipe` and `corpora` and source it. Each step leaves alone
# what is done, so a script that was cut short can be started again.
#
#   SETTINGS="key=value …"     changes to the recipe for all steps, as in train.compile=true on a GPU
#   UPDATES=N                  of each fine-tuned system, in place of the script's own number
#   SYSTEMS="multi-path ped"   only some of the systems in runs/systems.py
#   LANES=4                    so many systems are trained side by side, if the GPU has room
#   JOBS=8 BATCH=256 DEVICE=cuda    how results are computed: processes, sentences at a time, device
#   AT=DIR                     where data, runs and docs are written (default: this tree)
# shellcheck shell=bash disable=SC2034,SC2154

python=${PYTHON:-python}
at=${AT:-.}
data=$at/data/$recipe
work=$at/runs/$recipe
units=(paths.unit=token) # systems are compared as in the paper
read -r -a settings <<<"${SETTINGS:-}"
read -r -a systems <<<"${SYSTEMS:+--systems $SYSTEMS}"
read -r -a machine <<<"--jobs ${JOBS:-1} ${BATCH:+--batch $BATCH} ${DEVICE:+--device $DEVICE}"

bethink() { "$python" -m bethink "$@"; }
compare() { "$python" runs/compare.py "$@"; }

# prepare [key=value …]
prepare() { bethink prepare "$recipe" "$@" "${settings[@]}" --data "$corpora" --out "$data"; }

# base [key=value …]: the base model, multi-path, from nothing
base() { bethink train "$recipe" "${units[@]}" "$@" "${settings[@]}" --data "$data" --run "$work/base"; }

# fine_tune DATA UPDATES [key=value …]: every system, from the base model, for as many updates each
fine_tune() {
    local from=$1 updates=${UPDATES:-$2}
    shift 2
    compare train "$work" "$recipe" "${units[@]}" "$@" "${settings[@]}" --data "$from" --from "$work/base" --updates "$updates" --lanes "${LANES:-1}" \
        "${systems[@]}"
}

# judges TEXT LINES: the systems that are another with a judge added; the text may be prepared data
judges() { compare judge "$work" --source "$1" --lines "$2" "${systems[@]}"; }

# results PROFILE [--dev NAME SOURCE REFERENCE …]: by default the recipe's own development and test sets, as they were prepared
results() {
    local profile=$1
    shift
    if [ $# -eq 0 ]; then
        set -- --dev dev "$data/dev.source.txt" "$data/dev.target.txt" --test test "$data/test.source.txt" "$data/test.target.txt"
    fi
    compare evaluate "$work" "$@" "${machine[@]}" "${systems[@]}"
    compare tables "$work" --name "${name:-$recipe-comparison}" --profile "$profile" --root "$at" "${systems[@]}"
}
