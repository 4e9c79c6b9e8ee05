#!/usr/bin/env python3
"""Prints what tests/replay found, both halves side by side; the status is 1 when a row got out.

  table.py ROWS.jsonl

accepted.txt names the rows that get through on purpose, with the reason; one that no longer does is a fault.
"""
import collections
import json
import os
import sys

POLICY = ("refused", "allowed")
KERNEL = ("escaped", "accepted", "unlisted", "confined", "nothing", "refused", "error")
BAD = ("escaped", "unlisted", "error")


def accepted():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "accepted.txt"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(": ", 1) for line in file if line.strip() and not line.startswith("#")]
    return {name: reason for name, reason in lines if len(reason) >= 15}


def main(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    reasons = accepted()
    for row in rows:
        if row["kernel"] == "escaped" and row["id"] in reasons:
            row["kernel"] = "accepted"
    if not rows:
        print("replay: no row was run")
        return 1
    print(f"{'corpus':<28} {'rows':>5} {'missing':>7} | policy: {'refused':>7} {'allowed':>7} | kernel: "
          + " ".join(f"{word:>8}" for word in KERNEL))
    for corpus in sorted({row["corpus"] for row in rows}):
        mine = [row for row in rows if row["corpus"] == corpus]
        policy = collections.Counter(row.get("policy") for row in mine)
        kernel = collections.Counter(row["kernel"] for row in mine)
        print(f"{corpus.removesuffix('.jsonl'):<28} {len(mine):>5} {kernel['missing']:>7} |         "
              + " ".join(f"{policy[word]:>7}" for word in POLICY) + " |         "
              + " ".join(f"{kernel[word]:>8}" for word in KERNEL))
    if any("bare" in row for row in rows):
        works = [row for row in rows if row.get("bare") == "escaped"]
        both = collections.Counter((row.get("policy"), row["kernel"]) for row in works)
        print(f"\nof the {len(works)} rows that work bare in this root:")
        print(f"  {'policy':<10} {'rows':>5} | kernel: " + " ".join(f"{word:>8}" for word in KERNEL))
        for word in POLICY:
            counts = [both[(word, kernel)] for kernel in KERNEL]
            print(f"  {word:<10} {sum(counts):>5} |         " + " ".join(f"{count:>8}" for count in counts))
    for row in rows:
        if row["kernel"] in BAD:
            print(f"\n{row['kernel'].upper()} {row['id']} ({row.get('kind')}) policy: {row.get('policy')} {row.get('rule', '')}")
            print("  " + json.dumps({key: row[key] for key in ("status", "exec", "tail", "why", "dropped") if row.get(key)}))
    for row in rows:
        if row["kernel"] == "accepted":
            print(f"\naccepted {row['id']} (policy: {row.get('policy')}): {reasons[row['id']]}")
        elif row["id"] in reasons and row["kernel"] != "missing":
            row["kernel"] = "error"
            print(f"\nSTALE {row['id']}: accepted.txt lists it, but it is stopped: take it off")
    bad = sum(row["kernel"] in BAD for row in rows)
    print(f"\nreplay: {len(rows)} rows, {bad} got out or could not be judged")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
