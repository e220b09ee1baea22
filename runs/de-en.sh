#!/usr/bin/env bash
# German to English, from the corpora to the bundled model and its table: one GPU, about half an hour of it.
#
#   runs/de-en.sh CORPORA          CORPORA holds europarl.train, tatoeba.train, europarl.dev, newstest2013 and newstest2015 (.de, .en, or .xz)
#
# The trunk is multi-path, so that one model knows every latency; it ends at 32,500 updates, before its learning rate has come down. The branch
# begins with its weights, gets the capsules, and brings the rate down to nothing: every system to compare is such a branch of equal length.
set -euo pipefail
cd "$(dirname "$0")/.."

corpora=${1:?"usage: runs/de-en.sh CORPORA"}
bethink=${BETHINK:-bethink}
trunk="train.updates=32500 train.average=1 train.keep=3 train.save=2500 train.validate=2500 train.compile=true"
branch="train.seed=2 train.save=3000 train.keep=1 train.average=1 train.validate=1500 train.compile=true"

"$bethink" prepare de-en data.align=true --data "$corpora" --out data/de-en
"$bethink" train de-en --run runs/de-en-trunk $trunk
"$bethink" train de-en system=aligned --from runs/de-en-trunk --run runs/de-en-aligned $branch
"$bethink" export runs/de-en-aligned --to models/de-en --precision int8 --name de-en --policy weigh:k=2,r=4,rate=1.2,rho=0.9

for test in europarl.dev newstest2013; do
    "$bethink" evaluate --model models/de-en --source "$corpora/$test.de" --reference "$corpora/$test.en" --out "results/$test" \
        --policy wait-k:1 wait-k:3 wait-k:5 wait-k:7 wait-k:9 offline \
        wait-k:k=1,rate=1.2 wait-k:k=3,rate=1.2 wait-k:k=5,rate=1.2 wait-k:k=7,rate=1.2 \
        weigh:k=1 weigh:k=2 weigh:k=4 weigh:k=6 \
        adaptive:rho_1=0.4,rho_k=0 adaptive:rho_1=0.8,rho_k=0 adaptive:rho_1=1,rho_k=0.2 adaptive:rho_1=1,rho_k=0.6 \
        pe:k=1,rho=0.3,r=2 pe:k=3,rho=0.3,r=2 pe:k=1,rho=0.3,r=6
done
python runs/de_en.py results/europarl.dev results/newstest2013
python runs/examples.py
