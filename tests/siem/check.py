"""Holds siem/ to records that the product wrote.

    python tests/siem/check.py COFFERDAM EVALUATOR [DIRECTORY]     all checks; DIRECTORY keeps the logs
    python tests/siem/check.py --write     writes anew what is made of schema and mappings

Runs the stories of stories.py, then: every record is valid under siem/record.schema.json; every Sigma rule hits its
story and none but base rules hit the quiet log; pySigma's checker is clean; the shipped tables have every field of the
schema, DuckDB reads every log through them, computes every hash anew and runs every example query; the renderings are what siem/mapping says; `audit show`,
`replay` and `report` do what they say, the page in Chromium; rsyslog and syslog-ng read every record with the shipped
configuration. EVALUATOR is the
program of tests/siem/evaluator. Prints `N checks passed, N failed`; status 1 when one failed, after all were tried.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIEM = ROOT / "siem"
SCHEMA = SIEM / "record.schema.json"

# Rules of another field, which other rules count: alone they are no alert.
BASE_LEVELS = {"informational", "low"}

passed = 0
failures = []


def check(name, good, detail=""):
    global passed
    if good:
        passed += 1
    else:
        failures.append(name)
        print(f"FAILED: {name}: {detail}", file=sys.stderr)


# --- tables made of the schema --------------------------------------------------------------------------

TYPES = {
    "duckdb": {"integer": "BIGINT", "string": "VARCHAR", "boolean": "BOOLEAN", "array": "VARCHAR[]", "time": "TIMESTAMPTZ"},
    "clickhouse": {"integer": "Nullable(UInt64)", "string": "Nullable(String)", "boolean": "Nullable(Bool)",
                   "array": "Array(String)", "time": "DateTime64(6, 'UTC')"},
}
# Not nullable in ClickHouse: every record has them, and the order of the table goes by them.
KEY = {"chain_id": "String", "seq": "UInt64", "event_type": "LowCardinality(String)", "timestamp": "DateTime64(6, 'UTC')"}
NOTE = "-- Made of siem/record.schema.json by `tests/siem/check.py --write`; a test holds it to the schema.\n"


def columns(kind):
    for name, field in json.loads(SCHEMA.read_text())["properties"].items():
        sort = "time" if name == "timestamp" else field["type"]
        typed = KEY.get(name) if kind == "clickhouse" and name in KEY else TYPES[kind][sort]
        yield f"    {name} {typed}"


def table(kind):
    body = ",\n".join(columns(kind))
    if kind == "duckdb":
        return f"-- run in CI\n{NOTE}CREATE TABLE IF NOT EXISTS cofferdam_audit (\n{body}\n);\n"
    end = "ENGINE = MergeTree ORDER BY (chain_id, seq) PARTITION BY toYYYYMM(timestamp)"
    return f"-- not run here\n{NOTE}CREATE TABLE IF NOT EXISTS cofferdam_audit (\n{body}\n) {end};\n"


def sentinel():
    """A table of Log Analytics, and the data collection rule that fills it."""
    types = {"integer": "long", "string": "string", "boolean": "boolean", "array": "dynamic"}
    fields = json.loads(SCHEMA.read_text())["properties"]
    columns = [{"name": name, "type": "datetime" if name == "timestamp" else types[field["type"]]} for name, field in fields.items()]
    made = {"name": "TimeGenerated", "type": "datetime"}
    source = {"name": "cofferdam", "streams": ["Custom-CofferdamAudit"], "filePatterns": ["/var/log/cofferdam/audit.jsonl"], "format": "json"}
    flow = {"streams": ["Custom-CofferdamAudit"], "destinations": ["workspace"], "transformKql": "source | extend TimeGenerated = timestamp",
            "outputStream": "Custom-CofferdamAudit_CL"}
    rule = {"streamDeclarations": {"Custom-CofferdamAudit": {"columns": columns}}, "dataSources": {"logFiles": [source]}, "dataFlows": [flow]}
    table = {"properties": {"schema": {"name": "CofferdamAudit_CL", "columns": [made, *columns]}}}
    return json.dumps({"_": "not run here", "table": table, "rule": {"properties": rule}}, indent=1) + "\n"


def tables():
    return {**{SIEM / kind / "table.sql": table(kind) for kind in TYPES}, SIEM / "sentinel" / "table.json": sentinel()}


def between(text, name, table):
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, rest = text.split(begin)
    return head + begin + table + end + rest.split(end)[1]


def written():
    """Files that are made of others, with what they have to be."""
    import views

    guide = (ROOT / "docs" / "siem.md").read_text()
    for schema_name in ("ecs", "ocsf"):
        guide = between(guide, f"mapping {schema_name}", views.table(schema_name))
    return {**tables(), ROOT / "docs" / "siem.md": guide}


# --- checks -----------------------------------------------------------------------------------------------

def schema(logs):
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    for name, log in logs.items():
        records = [json.loads(line) for line in log.read_text().splitlines()]
        faults = [f"{record['seq']}: {error.message}" for record in records for error in validator.iter_errors(record)]
        check(f"schema, {name}", records and not faults, faults[:5])


def marks():
    """Every file that others load says at its top whether it was tried."""
    tried = {"duckdb", "rsyslog", "syslog-ng"}
    for path in sorted(SIEM.glob("*/*")):
        if path.parent.name in ("sigma", "mapping"):
            continue
        text = path.read_text()
        first = text.splitlines()[0] if path.suffix != ".json" else text.split('"_": "')[1].split('"')[0]
        wanted = "run in CI" if path.parent.name in tried else "not run here"
        check(f"{path.relative_to(ROOT)} says whether it was tried", wanted in first, first)


def rules():
    import yaml

    return {path: yaml.safe_load(path.read_text()) for path in sorted((SIEM / "sigma").glob("*.yml"))}


def sigma(evaluator, logs, stories):
    shipped = {rule["title"]: rule for rule in rules().values()}
    check("sigma, at least twelve detections", len(shipped) >= 12, len(shipped))
    proved = set()
    for name, log in logs.items():
        done = subprocess.run([evaluator, SIEM / "sigma", log], capture_output=True, text=True)
        if done.returncode != 0:
            check(f"sigma, {name}", False, done.stderr)
            continue
        hits = {title for title, seqs in json.loads(done.stdout).items() if seqs}
        if name == "quiet":
            loud = [title for title in hits if shipped[title]["level"] not in BASE_LEVELS]
            check("sigma, the quiet log is quiet", not loud, loud)
            continue
        wanted = set(stories[name][1])
        if not wanted:
            continue
        check(f"sigma, {name}", wanted <= hits, f"wanted {wanted}, hit {hits}")
        proved |= wanted & hits
    check("sigma, every rule has a story", proved == set(shipped), set(shipped) - proved)
    for path, rule in rules().items():
        lone = ("correlation" in rule) == path.name.endswith(".corr.yml")
        check(f"sigma, {path.name}: correlations in their own files", lone)
    # The two left out download lists that they check tags against.
    command = [str(Path(sys.executable).with_name("sigma")), "check", "-x", "attacktag", "-x", "d3_fendtag", SIEM / "sigma"]
    done = subprocess.run(command, capture_output=True, text=True)
    clean = done.returncode == 0 and "Found 0 errors, 0 condition errors and 0 issues." in done.stdout
    check("sigma, pySigma's checker is clean", clean, done.stdout + done.stderr)


def statements(text):
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]


def duckdb_reads(logs):
    import duckdb

    load = (SIEM / "duckdb" / "load.sql").read_text()
    queries = (SIEM / "duckdb" / "queries.sql").read_text()
    for name, log in logs.items():
        lines = log.read_text().splitlines()
        base = duckdb.connect()
        base.execute((SIEM / "duckdb" / "table.sql").read_text())
        base.execute(load.replace("audit.jsonl", str(log)))
        (count,) = base.execute("select count(*) from cofferdam_audit").fetchone()
        check(f"duckdb, {name}: all records are in the table", count == len(lines), (count, len(lines)))
        for statement in statements(queries.replace("audit.jsonl", str(log))):
            try:
                answer = base.execute(statement).fetchall()
            except duckdb.Error as error:
                check(f"duckdb, {name}: {statement[:60]}", False, error)
                continue
            if "AS good" in statement:
                check(f"duckdb, {name}: every hash is right", answer == [(len(lines), len(lines))], answer)
                edited = log.with_suffix(".edited")
                edited.write_text(log.read_text().replace('"sh_run"', '"sh_ran"', 1))
                again = base.execute(statement.replace(str(log), str(edited))).fetchall()
                changed = edited.read_text() != log.read_text()
                check(f"duckdb, {name}: an edit shows", again == [(len(lines), len(lines) - changed)], again)
                edited.unlink()
            elif "AS broken_links" in statement:
                check(f"duckdb, {name}: every link is right", answer == [(0,)], answer)


def main(arguments):
    if arguments == ["--write"]:
        for path, text in written().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(path.relative_to(ROOT))
        return 0
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    import collectors
    import stories
    import views

    binary, evaluator = (Path(word).resolve() for word in arguments[:2])
    with tempfile.TemporaryDirectory(prefix="cofferdam-siem-") as directory:
        base = Path(directory)
        target = Path(arguments[2]).resolve() if len(arguments) == 3 else base / "logs"
        logs = stories.tell(binary, target, base)
        policies = {name: (base / name / "policy.toml").read_text() for name in logs}
        for path, text in written().items():
            why = "it is not what the schema and the mappings give: run tests/siem/check.py --write"
            check(f"{path.relative_to(ROOT)} is as its sources say", path.exists() and path.read_text() == text, why)
        marks()
        schema(logs)
        sigma(evaluator, logs, stories.STORIES)
        duckdb_reads(logs)
        views.renderings(check, binary, logs)
        views.show(check, binary, logs)
        views.follow(check, binary, logs["quiet"], base)
        views.replay(check, binary, policies, logs)
        views.page(check, binary, logs["markup"], base)
        collectors.rsyslog(check, logs, base)
        collectors.syslog_ng(check, logs, base)
    print(f"{passed} checks passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
