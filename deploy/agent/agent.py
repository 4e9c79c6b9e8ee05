"""An agent's side of the appliance, with the official Python client: lists, runs, is refused, streams, follows a job.

    agent.py                  over `cofferdam connect --unix /socket/mcp.sock`
    agent.py http URL FILE    over HTTP, with the bearer token in FILE

Prints a line for each step; the first that is not as expected ends it with status 1.
"""

import sys
import time

import anyio
from mcp import Client, StdioServerParameters, stdio_client

SOCKET = "/socket/mcp.sock"
# A bound on waiting for something that has to happen.
PATIENCE = 60


def expect(what, good, found=""):
    if not good:
        sys.exit(f"agent: {what}: {found}")
    print(f"agent: {what}", flush=True)


def text(result):
    return "".join(part.text for part in result.content if part.type == "text")


def ended(answer):
    """Exit status of a command that was started, else None."""
    return None if answer.is_error else answer.structured_content["exit"]


async def talk(client, messages):
    expect("speaks the era of streams", client.protocol_version == "2026-07-28", client.protocol_version)
    names = sorted(tool.name for tool in (await client.list_tools()).tools)
    expect("lists the tools", "sh_run" in names and "sh_start" in names, names)

    answer = await client.call_tool("sh_run", {"command": "ls", "args": ["-a"]})
    expect("runs a command", ended(answer) == 0 and answer.structured_content["stdout"].startswith("."), answer)
    answer = await client.call_tool("sh_run", {"command": "git", "args": ["log", "--oneline", "-1"]})
    expect("reads a repository of another owner", ended(answer) == 0, answer)
    answer = await client.call_tool("sh_run", {"command": "rm", "args": ["-rf", "x"]})
    expect("is refused what the policy does not list",
           answer.is_error and text(answer).startswith("Command 'rm' is not allowlisted"), answer)
    answer = await client.call_tool("sh_run", {"command": "cat", "args": ["/etc/shadow"]})
    expect("is refused a file outside of the workspace",
           answer.is_error and "outside of the workspace" in text(answer), answer)

    lines, form = [f"{number:05}" for number in range(1000)], "%-120s|\\n"
    whole = "".join(f"{line:<120}|\n" for line in lines)
    messages.clear()
    answer = await client.call_tool("sh_run", {"command": "printf", "args": [form, *lines]},
                                    meta={"io.modelcontextprotocol/logLevel": "info"})
    told = [m.data["text"] for m in messages if m.logger == "sh_run" and m.data["stream"] == "stdout"]
    expect("is told of output as it comes", ended(answer) == 0 and len(told) > 1 and "".join(told) == whole,
           f"{len(told)} pieces, {len(''.join(told))} of {len(whole)} characters; {text(answer)[:200]}")

    started = await client.call_tool("sh_start", {"command": "printf", "args": [form, *lines]})
    expect("starts a job", not started.is_error, started)
    job, cursor, pieces, deadline = started.structured_content["job"], "0", [], time.monotonic() + PATIENCE
    while True:
        part = await client.call_tool("sh_output", {"job": job, "cursor": cursor, "max_bytes": 16384})
        if part.is_error or time.monotonic() > deadline:
            expect("the job is followed", False, part)
        pieces.append(part.structured_content["stdout"])
        cursor = part.structured_content["cursor"]
        if part.structured_content["eof"]:
            break
        await anyio.sleep(0.05)
    expect("followed the job to its end", "".join(pieces) == whole, f"{len(''.join(pieces))} of {len(whole)}")
    end = await client.call_tool("sh_poll", {"job": job})
    expect("knows how it ended", ended(end) == 0 and end.structured_content["state"] == "exited", end)


async def main(words):
    messages = []

    async def heard(params):
        messages.append(params)

    if words[:1] == ["http"]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        _, url, file = words
        with open(file, encoding="ascii") as handle:
            token = handle.read().strip()
        async with httpx2.AsyncClient(timeout=PATIENCE) as plain:
            answer = await plain.post(url, json={})
            expect("is refused without a token", answer.status_code == 401, answer.status_code)
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http:
            async with Client(streamable_http_client(url, http_client=http), logging_callback=heard) as client:
                await talk(client, messages)
    else:
        server = StdioServerParameters(command="cofferdam", args=["connect", "--unix", SOCKET])
        async with Client(stdio_client(server), logging_callback=heard) as client:
            await talk(client, messages)
    print("agent: done", flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
