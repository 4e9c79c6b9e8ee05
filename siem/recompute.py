#!/usr/bin/env python3
"""Recomputes the hash chain of audit logs without cofferdam: once in Python, once in SQL.

Usage: recompute.py FILE...   (oldest first)

Prints how many records of each pass are whole; the status is 0 when all are, else 1. Standard library only: the SQL
runs in SQLite with sha256 as a function. DuckDB has one of its own; siem/recompute.sql is the same there.
"""

import hashlib
import json
import re
import sqlite3
import sys

HASH = re.compile(rb',"record_hash":"([0-9a-f]{64})"}$')

SQL = """
WITH part AS (
  SELECT position, line,
         substr(line, 1, length(line) - 82) || '}' AS content,
         substr(line, length(line) - 65, 64) AS named,
         substr(line, length(line) - 81, 16) AS member,
         json_extract(line, '$.prev_hash') AS prev,
         json_extract(line, '$.seq') AS seq
  FROM record
), linked AS (
  SELECT *, lag(named) OVER (ORDER BY position) AS before,
         lag(seq) OVER (ORDER BY position) AS seq_before
  FROM part
)
SELECT count(*) FROM linked
WHERE member = ',"record_hash":"' AND sha256(content) = named
  AND (before IS NULL OR (prev = before AND seq = seq_before + 1))
"""


def lines(paths):
    for path in paths:
        with open(path, "rb") as file:
            for line in file.read().split(b"\n"):
                if line:
                    yield line


def in_python(all_lines):
    whole, before = 0, None
    for line in all_lines:
        found = HASH.search(line)
        if not found:
            continue
        named = found.group(1).decode()
        right = hashlib.sha256(line[: found.start()] + b"}").hexdigest() == named
        try:
            record = json.loads(line)
        except ValueError:
            continue
        linked = before is None or (record["prev_hash"], record["seq"]) == (before[0], before[1] + 1)
        whole += right and linked
        before = (named, record["seq"])
    return whole


def in_sql(all_lines):
    database = sqlite3.connect(":memory:")
    database.create_function("sha256", 1, lambda text: hashlib.sha256(text.encode()).hexdigest(), deterministic=True)
    database.execute("CREATE TABLE record (position INTEGER PRIMARY KEY, line TEXT)")
    texts = ((line.decode("utf-8", "replace"),) for line in all_lines)
    valid = (text for text in texts if is_json(text[0]))
    database.executemany("INSERT INTO record (line) VALUES (?)", valid)
    return database.execute(SQL).fetchone()[0]


def is_json(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def main(paths):
    if not paths:
        sys.exit(__doc__)
    all_lines = list(lines(paths))
    passes = {"python": in_python(all_lines), "sql": in_sql(all_lines)}
    for name, whole in passes.items():
        print(f"{name}: {whole} of {len(all_lines)} records are whole and linked")
    return 0 if all(whole == len(all_lines) for whole in passes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
