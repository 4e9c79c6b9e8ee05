"""An agent's side of the appliance, with the official Python client: lists, runs, is refused, follows a job.

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


async def talk(client):
    names = sorted(tool.name for tool in (await client.list_tools()).tools)
    expect("lists the tools", "sh_run" in names and "sh_start" in names, names)

    answer = await client.call_tool("sh_run", {"command": "ls", "args": ["-a"]})
    expect("runs a command", not answer.is_error and answer.structured_content["exit_code"] == 0, answer)
    answer = await client.call_tool("sh_run", {"command": "git", "args": ["log", "--oneline", "-1"]})
    expect("reads a repository of another owner", not answer.is_error and answer.structured_content["exit_code"] == 0, answer)
    answer = await client.call_tool("sh_run", {"command": "rm", "args": ["-rf", "x"]})
    expect("is refused what the policy does not list", answer.is_error and text(answer).startswith("refused"), answer)
    answer = await client.call_tool("sh_run", {"command": "cat", "args": ["/etc/shadow"]})
    expect("is refused a file outside of the workspace",
           answer.is_error or answer.structured_content["exit_code"] != 0, answer)

    started = await client.call_tool("sh_start", {"command": "find", "args": ["/workspace"]})
    expect("starts a job", not started.is_error, started)
    job, cursor, output, deadline = started.structured_content["job_id"], 0, "", time.monotonic() + PATIENCE
    while True:
        part = await client.call_tool("sh_output", {"job_id": job, "cursor": cursor, "max_bytes": 4096})
        expect("reads an instalment", not part.is_error, part)
        output += part.structured_content["stdout"]
        cursor = part.structured_content["next_cursor"]
        if part.structured_content["eof"]:
            break
        expect("the job ends in time", time.monotonic() < deadline)
        await anyio.sleep(0.05)
    expect("followed the job to its end", output.startswith("/workspace"), output[:200])


async def main(words):
    if words[:1] == ["http"]:
        import httpx
        from mcp.client.streamable_http import streamable_http_client

        _, url, file = words
        with open(file, encoding="ascii") as handle:
            token = handle.read().strip()
        async with httpx.AsyncClient(timeout=PATIENCE) as plain:
            answer = await plain.post(url, json={})
            expect("is refused without a token", answer.status_code == 401, answer.status_code)
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                await talk(client)
    else:
        server = StdioServerParameters(command="cofferdam", args=["connect", "--unix", SOCKET])
        async with Client(stdio_client(server)) as client:
            await talk(client)
    print("agent: done", flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
