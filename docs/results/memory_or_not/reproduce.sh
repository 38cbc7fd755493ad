#!/bin/bash
# Trains and scores everything, then writes the records, tables and report beside this file. Goes on where it stopped.
set -e
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
benchmark="python -m sample_factory.benchmark"
runs=train_dir/memory_or_not
results=docs/results/memory_or_not
$benchmark run $results/suite.yaml --max_parallel=2 --pause_between=0 --threads_per_job=1
$benchmark export $runs --format=records --output=$results/runs > /dev/null
cp $runs/baselines.json $results/runs/
$benchmark summary $results/runs > $results/summary.csv
$benchmark summary $results/runs --format=markdown --output=$results/summary.md
$benchmark report $results/runs --title="A recurrent core, or none?" --output=$results/report.html
$benchmark compare $results/runs --algo=APPO --baseline_algo=APPO_rnn --format=markdown > $results/compare.md
$benchmark verify $results/report.html $results/runs
