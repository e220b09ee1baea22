#!/usr/bin/env bash
# English to Vietnamese from the text at hand, to the table: one GPU.
#
#   runs/en-vi.sh CORPORA                  CORPORA holds train, tst2012 and tst2013, each .en and .vi (or .xz)
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=en-vi corpora=${1:?"usage: runs/en-vi.sh CORPORA"}
source runs/steps.sh

prepare
base train.compile=true
fine_tune "$data" 3000 train.compile=true
judges "$data" 4000
results paper --limit 300 --dev tst2012 "$data"/dev.{source,target}.txt --test tst2013 "$data"/test.{source,target}.txt
