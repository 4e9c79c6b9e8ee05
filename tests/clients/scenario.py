"""Drives `cofferdam serve` through the shared scenario with the official Python MCP client, in both eras.

    python tests/clients/scenario.py PATH-TO-COFFERDAM

SCENARIO.md says what the steps mean. Prints `N steps passed`; the first that fails ends it with status 1.
Needs `cc`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client

HERE = Path(__file__).resolve().parent
SCENARIO = json.loads((HERE / "scenario.json").read_text(encoding="utf-8"))
ERAS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
# A bound on waiting for something that has to happen, never a measure of how fast it does.
PATIENCE = 60


def content(file):
    if "text" in file:
        return file["text"]
    return "".join(f"{n:05}{file['numbered']}" for n in range(file["lines"]))


class Stage:
    """A workspace, a policy and the words that steps may use."""

    def __init__(self, base):
        base.chmod(0o755)
        workspace, audit, sleeper = base / "workspace", base / "log" / "audit.jsonl", base / "bin" / "sleeper"
        for directory in (workspace, audit.parent, sleeper.parent):
            directory.mkdir()
        subprocess.run(["cc", "-o", sleeper, HERE / "sleeper.c"], check=True)
        self.words = {"workspace": str(workspace), "audit": str(audit), "sleeper": str(sleeper)}
        for name, file in SCENARIO["files"].items():
            self.words[name] = content(file)
            (workspace / name).write_text(self.words[name], encoding="utf-8")
        for mark in SCENARIO["marks"]:
            self.words[mark] = f"mark-{uuid.uuid4()}"
        self.policy = base / "policy.toml"
        self.policy.write_text("\n".join(self.filled(SCENARIO["policy"])) + "\n", encoding="utf-8")

    def filled(self, value):
        if isinstance(value, str):
            return re.sub(r"\{([a-z.-]+)\}", lambda hit: self.words[hit[1]], value)
        if isinstance(value, list):
            return [self.filled(item) for item in value]
        if isinstance(value, dict):
            return {key: self.filled(item) for key, item in value.items()}
        return value


def marked(mark):
    """Processes that carry `mark` among their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0") and state != "Z":
                    found.append(int(entry.name))
            except OSError:
                pass  # gone meanwhile
    return found


async def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await anyio.sleep(0.02)


def recorded(audit, wanted):
    for line in Path(audit).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if all(record.get(key) == value for key, value in wanted.items()):
            return True
    return False


class Session:
    def __init__(self, client, stage, modern, messages):
        self.client, self.stage, self.modern, self.messages = client, stage, modern, messages

    async def call(self, step):
        """Whether the call does what the step says, and what came of it."""
        meta = {"io.modelcontextprotocol/logLevel": "info"} if "stream" in step and self.modern else None
        try:
            result = await self.client.call_tool(step["tool"], step["arguments"], meta=meta)
        except MCPError as error:
            return error.code == step.get("code"), error, {}
        said = "".join(block.text for block in result.content)
        if "code" in step:
            return False, said, {}
        if "refused" in step:
            return bool(result.is_error) and said.startswith(step["refused"]), said, {}
        payload = result.structured_content or {}
        good = not result.is_error and all(payload.get(key) == value for key, value in step.get("expect", {}).items())
        return good, said, payload

    async def tool(self, step):
        deadline = time.monotonic() + PATIENCE
        self.messages.clear()
        good, said, payload = await self.call(step)
        while not good and step.get("repeat") and time.monotonic() < deadline:
            await anyio.sleep(0.05)
            good, said, payload = await self.call(step)
        assert good, said
        for word, key in step.get("save", {}).items():
            self.stage.words[word] = payload[key]
        if "stream" in step:
            told = [m.data["text"] for m in self.messages if m.logger == step["tool"] and m.data["stream"] == "stdout"]
            if self.modern:
                assert len(told) >= step["stream"] and "".join(told) == payload["stdout"], len(told)
            else:
                assert told == [], told

    async def cancel(self, step):
        async with anyio.create_task_group() as group:
            group.start_soon(self.client.call_tool, step["tool"], step["arguments"])
            await until("the command is there", lambda: len(marked(step["cancel"])) >= 2)
            group.cancel_scope.cancel()
        await until("the command is gone", lambda: marked(step["cancel"]) == [])

    async def follow(self, step):
        cursor, pieces = "0", []
        while True:
            asked = {"job": step["follow"], "cursor": cursor, "max_bytes": step["max_bytes"]}
            piece = (await self.client.call_tool(f"{step['prefix']}_output", asked)).structured_content
            cursor = piece["cursor"]
            if piece["stdout"]:
                pieces.append(piece["stdout"])
            if piece["eof"]:
                break
        assert "".join(pieces) == step["stdout"] and len(pieces) >= step["pieces"], len(pieces)

    async def listed(self, step):
        names = sorted(tool.name for tool in (await self.client.list_tools()).tools)
        assert names == step["tools"], names


async def take(step, stage, session):
    step = stage.filled(step)
    try:
        if "tools" in step:
            await session.listed(step)
        elif "follow" in step:
            await session.follow(step)
        elif "cancel" in step:
            await session.cancel(step)
        elif "tool" in step:
            await session.tool(step)
        if "record" in step:
            await until("the record", lambda: recorded(stage.words["audit"], step["record"]))
        if "present" in step:
            await until("processes are there", lambda: len(marked(step["present"])) >= 2)
        if "gone" in step:
            await until("processes are gone", lambda: marked(step["gone"]) == [])
    except Exception as error:
        raise AssertionError(f"{step['name']}: {error!r}") from error


async def drive(binary, mode, version):
    base = Path(tempfile.mkdtemp(prefix="cofferdam-scenario-"))
    messages = []

    async def heard(params):
        messages.append(params)

    try:
        stage = Stage(base)
        with (base / "stderr").open("w") as errors:
            server = StdioServerParameters(command=binary, args=["serve", "--policy", str(stage.policy)])
            transport = stdio_client(server, errlog=errors)
            async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE, logging_callback=heard) as client:
                assert client.protocol_version == version, client.protocol_version
                session = Session(client, stage, mode != "legacy", messages)
                for step in SCENARIO["steps"]:
                    await take(step, stage, session)
        for step in SCENARIO["after"]:
            await take(step, stage, None)
        return len(SCENARIO["steps"]) + len(SCENARIO["after"])
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    steps = 0
    for mode, version in ERAS.items():
        steps += await drive(os.path.abspath(sys.argv[1]), mode, version)
    print(f"{steps} steps passed")


anyio.run(main)
