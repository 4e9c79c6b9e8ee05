#!/usr/bin/env bash
# Tables of `run.sh` side by side: how many probes of each category escape under each launcher, in Markdown.
#
#   tests/probes/beside.sh LABEL=FILE…
#
# E effects and reads outside, S risky kernel interfaces, R limits that are missing.
set -euo pipefail
echo "| launcher | E escaped | S escaped | R escaped | blocked | n/a | not run | probes |"
echo "|---|---:|---:|---:|---:|---:|---:|---:|"
for pair in "$@"; do
  awk -F'\t' -v label="${pair%%=*}" '
    { n[$3]++; if ($3 == "ESCAPED") escaped[$2]++ }
    END { printf "| %s | %d | %d | %d | %d | %d | %d | %d |\n", label, escaped["E"], escaped["S"], escaped["R"],
      n["BLOCKED"], n["NA"], n["NORUN"] + n["TIMEOUT"], NR }' "${pair#*=}"
done
