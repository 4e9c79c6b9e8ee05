// The MCP Inspector's command-line client against the shipped program: both eras, over standard input and output
// and over HTTP with a token.
//
//     node tests/conformance/inspector.mjs PATH-TO-COFFERDAM
//
// Lists the tools (strictly: no schema that a client may refuse), runs a command, is refused one, calls several at
// the same time, and is turned away without the token. Needs Node.js 22 and what package-lock.json names.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const INSPECTOR = join(dirname(fileURLToPath(import.meta.url)), "node_modules/.bin/mcp-inspector");
// A bound on waiting for what has to happen, never a measure of how fast it does.
const PATIENCE = 120_000;
const TOKEN = "0123456789abcdef0123456789abcdef0123456789abcdef";
// Statuses of the client: a result that says isError, a server that wants to know who asks.
const IS_ERROR = 5;
const UNAUTHENTICATED = 3;

function inspector(base, args) {
  const env = { ...process.env, MCP_CATALOG_PATH: join(base, "catalog.json"), XDG_STATE_HOME: join(base, "state") };
  const all = [INSPECTOR, "--cli", "--connect-timeout", "60000", "--format", "json", ...args];
  const ran = spawnSync(process.execPath, all, { env, encoding: "utf8", timeout: PATIENCE });
  return { ...ran, said: `${args.join(" ")}\nstatus ${ran.status}\n${ran.stdout}\n${ran.stderr}` };
}

// Every check on one way to the server; `before` and `after` stand around what is asked.
function drive(base, before, after) {
  const ask = (...args) => inspector(base, [...before, ...args, ...after]);
  let checks = 0;
  const check = (ran, status, ...words) => {
    assert.equal(ran.status, status, ran.said);
    for (const word of words) assert(ran.stdout.includes(word), `${word} in\n${ran.said}`);
    checks += 1;
  };
  for (const era of ["legacy", "modern", "auto"]) {
    const of = ["--protocol-era", era];
    check(ask(...of, "--method", "tools/list", "--strict"), 0, "sh_run", "sh_start", "sh_allowed");
    const run = [...of, "--method", "tools/call", "--tool-name", "sh_run"];
    check(ask(...run, "--tool-arg", "command=cat", 'args=["hello"]'), 0, "hello from the workspace");
    check(ask(...run, "--tool-arg", "command=rm", 'args=["hello"]'), IS_ERROR, "not allowlisted");
  }
  const load = ["--method", "tools/call", "--tool-name", "sh_allowed", "--load", "--load-requests", "40"];
  check(ask(...load, "--load-concurrency", "4"), 0);
  return checks;
}

// Starts the server over HTTP and finds out where it listens.
async function started(binary, workspace, base) {
  const tokens = join(base, "tokens");
  writeFileSync(tokens, `${TOKEN}\n`, { mode: 0o600 });
  const args = ["serve", "--listen", "127.0.0.1:0", "--workspace", workspace, "--token-file", tokens];
  const env = { ...process.env, XDG_STATE_HOME: join(base, "http") };
  const child = spawn(binary, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  const address = await new Promise((done, failed) => {
    const lines = [];
    createInterface({ input: child.stderr }).on("line", (line) => {
      lines.push(line);
      const found = /(127\.0\.0\.1:[1-9]\d*)/.exec(line);
      if (found) done(found[1]);
    });
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}:\n${lines.join("\n")}`)));
  });
  return { child, address };
}

async function main(binary) {
  const base = mkdtempSync(join(tmpdir(), "cofferdam-inspector-"));
  const workspace = join(base, "workspace");
  mkdirSync(workspace);
  writeFileSync(join(workspace, "hello"), "hello from the workspace\n");
  for (const path of [base, workspace]) chmodSync(path, 0o755);
  let checks = drive(base, [], ["--", binary, "serve", "--workspace", workspace]);
  const { child, address } = await started(binary, workspace, base);
  try {
    const url = ["--transport", "http", "--server-url", `http://${address}/mcp`];
    checks += drive(base, [...url, "--header", `Authorization: Bearer ${TOKEN}`], []);
    const nobody = inspector(base, [...url, "--method", "tools/list"]);
    assert.equal(nobody.status, UNAUTHENTICATED, nobody.said);
    checks += 1;
  } finally {
    child.kill("SIGTERM");
    rmSync(base, { recursive: true, force: true });
  }
  console.log(`${checks} checks passed`);
}

if (process.argv.length !== 3) {
  console.error("usage: node inspector.mjs PATH-TO-COFFERDAM");
  process.exit(2);
}
await main(resolve(process.argv[2]));
