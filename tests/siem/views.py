"""What people and SIEMs see of a log: renderings, the page in a browser, a replay. Called by check.py.

The mappings of siem/mapping are applied here a second time, independently of the program, to every record of every
story, and have to give what `audit show --format` prints.
"""

import html.parser
import json
import os
import pty
import select
import subprocess
import time
import tomllib
import zlib
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A bound on waiting for something that has to happen, never a measure of how fast it does.
PATIENCE = 60

# --- mappings ---------------------------------------------------------------------------------------------


def put(target, path, value):
    *parents, last = path.split(".")
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = value


def millis(timestamp):
    at = datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def file_of(path):
    return {"name": path.rsplit("/", 1)[-1], "path": path, "type_id": 1}


CONVERSIONS = {
    "copy": lambda value, _: value,
    "text": lambda value, _: str(value),
    "nanoseconds": lambda value, _: value * 1_000_000,
    "epoch_millis": lambda value, _: millis(value),
    "base_name": lambda value, _: value.rsplit("/", 1)[-1],
    "chain_and_seq": lambda value, record: f"{value}:{record['seq']}",
    "ocsf_file": lambda value, _: file_of(value),
}


def mapped(mapping, record):
    out = {}
    own = mapping["events"].get(record["event_type"], mapping["events"]["default"])
    for path, value in [*mapping["constants"].items(), *own.items()]:
        put(out, path, value)
    taken = set()
    for row in mapping["fields"]:
        how, name = row.get("as", "copy"), row["from"]
        if name not in record or row.get("class", own.get("class_uid")) != own.get("class_uid"):
            continue
        if how == "command_line":  # Quoting is the program's; only that it is there is looked at.
            put(out, row["to"], None)
        elif how.startswith("table:"):
            put(out, row["to"], mapping["tables"][how.removeprefix("table:")][record[name]])
        else:
            put(out, row["to"], CONVERSIONS[how](record[name], record))
        taken.add(name)
    for name, value in record.items():
        if name not in mapping["except"] and ("class_uid" not in own or name not in taken):
            out.setdefault(mapping["rest"], {})[name] = value
    return out


def without_command_lines(document):
    for name in ("command_line", "cmd_line"):
        if name in document.get("process", {}):
            document["process"][name] = None
    return document


def renderings(check, binary, logs):
    for schema in ("ecs", "ocsf"):
        mapping = tomllib.loads((ROOT / f"siem/mapping/{schema}.toml").read_text())
        for name, log in logs.items():
            shown = subprocess.run([binary, "audit", "show", "--format", schema, log], capture_output=True, text=True)
            documents = [without_command_lines(json.loads(line)) for line in shown.stdout.splitlines()]
            records = [json.loads(line) for line in log.read_text().splitlines()]
            wanted = [mapped(mapping, record) for record in records]
            wrong = [(a, b) for a, b in zip(documents, wanted) if a != b]
            good = shown.returncode == 0 and len(documents) == len(wanted) and not wrong
            check(f"{schema}, {name}", good, wrong[:1] or shown.stderr)


def table(schema):
    """The mapping as a table of docs/siem.md."""
    mapping = tomllib.loads((ROOT / f"siem/mapping/{schema}.toml").read_text())
    lines = ["| native | " + schema.upper() + " | how |", "| --- | --- | --- |"]
    for row in mapping["fields"]:
        how = row.get("as", "")
        only = f"class {row['class']}" if "class" in row else ""
        lines.append(f"| `{row['from']}` | `{row['to']}` | {', '.join(word for word in (how, only) if word)} |")
    return "\n".join(lines) + "\n"


# --- the page -----------------------------------------------------------------------------------------------


class Elements(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.attributes, self.title, self.within = set(), set(), "", None

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attributes}
        # Charts have titles of their own.
        self.within = tag if "svg" not in self.names else None

    def handle_endtag(self, tag):
        self.within = None

    def handle_data(self, data):
        if self.within == "title":
            self.title += data


def corner(png):
    """The first pixel: of row 0 the first bytes are unfiltered, whatever the filter."""
    at, data = 8, b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    return tuple(zlib.decompress(data)[1:4])


def browse(profile, page, *flags):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
    command += [f"--user-data-dir={profile}", "--window-size=1280,2400", *flags, f"file://{page}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def page(check, binary, log, directory):
    """`log` is the story whose arguments are markup."""
    made = directory / "report.html"
    done = subprocess.run([binary, "audit", "report", "--html", made, log], capture_output=True, text=True)
    check("page, it is made", done.returncode == 0 and made.stat().st_mode & 0o777 == 0o600, done.stderr)
    dom = browse(directory / "profile", made, "--dump-dom").stdout
    seen = Elements()
    seen.feed(dom)
    check("page, the browser has its title and its text", seen.title == "cofferdam audit report" and "alert(1)" in dom, seen.title)
    foreign = seen.names & {"script", "img", "iframe", "object", "embed", "a", "form", "link", "base", "audio", "video"}
    active = {name for name in seen.attributes if name.startswith("on")} | seen.attributes & {"href", "src", "style"}
    check("page, nothing of the log became markup", not foreign and not active, (foreign, active))
    shots = {}
    for theme, flags in {"light": ["--blink-settings=preferredColorScheme=1"], "dark": ["--blink-settings=preferredColorScheme=0"]}.items():
        shot = directory / f"{theme}.png"
        browse(directory / "profile", made, f"--screenshot={shot}", *flags)
        shots[theme] = corner(shot.read_bytes()) if shot.exists() else None
    # The style sheet applies, so its hash in the content security policy is right.
    check("page, light and dark", shots == {"light": (255, 255, 255), "dark": (13, 17, 23)}, shots)
    pdf = directory / "report.pdf"
    browse(directory / "profile", made, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    check("page, it prints", pdf.exists() and pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 20_000)


# --- show and replay -----------------------------------------------------------------------------------------


def show(check, binary, logs):
    for name, log in logs.items():
        raw = log.read_bytes()
        same = subprocess.run([binary, "audit", "show", "--json", log], capture_output=True)
        check(f"show, {name}: --json is the log, byte for byte", same.returncode == 0 and same.stdout == raw)
        for flags in ([], ["--long"]):
            text = subprocess.run([binary, "audit", "show", *flags, log], capture_output=True).stdout.decode()
            steering = [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or 0x202A <= ord(c) <= 0x202E)]
            check(f"show, {name}: nothing steers {flags}", text and not steering, steering[:5])
        lines = subprocess.run([binary, "audit", "show", log], capture_output=True).stdout.splitlines()
        check(f"show, {name}: one line a record", len(lines) == len(raw.splitlines()))
    broken = logs["quiet"].with_suffix(".broken")
    broken.write_bytes(logs["quiet"].read_bytes().replace(b'"grep"', b'"gerp"') + b"no record\n")
    done = subprocess.run([binary, "audit", "show", broken], capture_output=True, text=True)
    named = f"{broken}:" in done.stderr and "edited" in done.stderr and "foreign_line" in done.stderr
    check("show, bad lines are named and the status says so", done.returncode == 1 and named, done.stderr)
    broken.unlink()


def replay(check, binary, policies, logs):
    """`policies` are those that the stories ran under."""

    def judged(name, text):
        file = logs[name].with_suffix(".toml")
        file.write_text(text(policies[name]))
        command = [binary, "audit", "replay", "--policy", file, "--json", logs[name]]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            check(f"replay, {name}", False, done.stderr)
            return done.returncode, None
        return done.returncode, json.loads(done.stdout)

    status, found = judged("quiet", lambda policy: policy)
    check("replay, the same policy judges alike", status == 0 and found and found["same"] == found["judged"] > 5, found)
    status, found = judged("quiet", lambda policy: policy.replace('"ls", ', ""))
    moved = {(entry["argv"][0], entry["was"], entry["now"]) for entry in (found or {}).get("different", [])}
    check("replay, what is no longer listed differs", status == 1 and moved == {("ls", "allow", "deny")}, moved)
    status, found = judged("denials", lambda policy: policy.replace('"ls", ', '"ls", "rm", '))
    moved = {(entry["argv"][0], entry["was"], entry["now"]) for entry in (found or {}).get("different", [])}
    check("replay, what is newly listed differs", status == 1 and moved == {("rm", "deny", "allow")}, moved)
    pattern = '\n[command.echo]\ndeny_arguments = [{ position = "any", pattern = ".*hunter2.*" }]\n'
    status, found = judged("secrets", lambda policy: policy.replace('"echo", ', "") + pattern)
    undecidable = found and found["undecidable_count"] == 6 and not found["different"]
    check("replay, redacted arguments are undecidable where they matter", status == 2 and undecidable, found)


def read_until(descriptor, holds):
    """What came from `descriptor`, as soon as it holds."""
    text, deadline = b"", time.monotonic() + PATIENCE
    while not holds(text) and time.monotonic() < deadline:
        if select.select([descriptor], [], [], 1)[0]:
            more = os.read(descriptor, 65536)
            if not more:
                break
            text += more
    return text


def follow(check, binary, log, base):
    """What is appended comes, across a rotation, and on a terminal in colour unless it is unwanted."""
    lines = log.read_bytes().splitlines(keepends=True)
    for name, environment, coloured in [("colour", {"TERM": "xterm"}, True), ("no colour", {"TERM": "xterm", "NO_COLOR": "1"}, False)]:
        live = base / f"follow-{coloured}" / "audit.jsonl"
        live.parent.mkdir()
        live.write_bytes(b"".join(lines[:5]))
        ours, theirs = pty.openpty()
        command = [binary, "audit", "show", "--follow", live]
        process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment)
        os.close(theirs)
        first = read_until(ours, lambda text: text.count(b"\n") >= 5)
        live.rename(live.with_name("audit-000000000001.jsonl"))
        live.write_bytes(b"".join(lines[5:]))
        rest = read_until(ours, lambda text: text.count(b"\n") >= len(lines) - 5)
        process.kill()
        said = process.communicate()[1]
        os.close(ours)
        whole = (first.count(b"\n"), rest.count(b"\n")) == (5, len(lines) - 5)
        check(f"show --follow, {name}: every record, through a rotation", whole and not said, (first, rest, said))
        check(f"show --follow, {name}", (b"\x1b[" in first + rest) == coloured, first[:200])
