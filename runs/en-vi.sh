#!/usr/bin/env bash
# English to Vietnamese from the text at hand, to the table: one GPU.
#
#   runs/en-vi.sh CORPORA                  CORPORA holds train, tst2012 and tst2013, each .en and .vi (or .xz)
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=en-vi corpora=${1:?"usage: runs/en-vi.sh CORPORA"}
source runs/steps.sh

prepare
trunk train.compile=true
branches "$data" 3000 train.compile=true
results paper
