"""Drives `cofferdam connect` with the official Python MCP client, in both protocol eras.

    python tests/clients/connect_client.py PATH-TO-COFFERDAM SOCKET

A server of a policy that allows `cat` and `sleep`, with a file `plain` in its workspace, must listen on SOCKET.
Prints `N checks passed`; exits with status 1 when a check fails, after all of them were tried.
"""

import sys

import anyio
from mcp import Client, StdioServerParameters, stdio_client

MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}

passed = 0
failures = []


def check(name, good, detail=""):
    global passed
    if good:
        passed += 1
    else:
        failures.append(name)
        print(f"FAILED: {name}: {detail}", file=sys.stderr)


async def drive(binary, socket, mode, version):
    bridge = StdioServerParameters(command=binary, args=["connect", "--unix", socket])
    async with Client(stdio_client(bridge), mode=mode, read_timeout_seconds=60) as client:
        check(f"{mode}: version", client.protocol_version == version, client.protocol_version)
        tools = [tool.name for tool in (await client.list_tools()).tools]
        check(f"{mode}: tools", "sh_run" in tools and "sh_start" in tools, tools)
        result = await client.call_tool("sh_run", {"command": "cat", "args": ["plain"]})
        check(f"{mode}: output", result.structured_content["stdout"] == "plain\n", result)
        result = await client.call_tool("sh_run", {"command": "rm"})
        check(f"{mode}: refused", result.is_error, result)

        answers = {}

        async def echo(word):
            result = await client.call_tool("sh_run", {"command": "cat", "stdin": word})
            answers[word] = result.structured_content["stdout"]

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(echo, f"word {number}")
        check(f"{mode}: side by side", all(word == said for word, said in answers.items()) and len(answers) == 6, answers)

        with anyio.move_on_after(1):
            await client.call_tool("sh_run", {"command": "sleep", "args": ["1000"]})
        result = await client.call_tool("sh_run", {"command": "cat", "args": ["plain"]})
        check(f"{mode}: after a cancelled call", not result.is_error, result)


async def main():
    binary, socket = sys.argv[1:]
    for mode, version in MODES.items():
        await drive(binary, socket, mode, version)
    print(f"{passed} checks passed")
    return 1 if failures else 0


sys.exit(anyio.run(main))
