// The protocol's official conformance suite against cofferdam's HTTP transport, once for each revision.
//
//     node tests/conformance/suite.mjs fixtures PROGRAM      examples/conformance: every scored scenario passes
//     node tests/conformance/suite.mjs shipped  PROGRAM      the shipped program: shipped-REVISION.yml, exactly
//
// The suite fails a scenario whose fixtures are missing (prompts, sampling, tools of certain names), so that the
// shipped program is held to a strict baseline: what fails and is not listed is a failure, and so is what is listed
// and passes. The same listener, layers and sessions are in front of both. Needs Node.js 22 and `npm ci` here.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const SUITE = join(HERE, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const REVISIONS = ["2025-11-25", "2026-07-28"];
// Bounds on waiting for what has to happen, never measures of how fast it does.
const PATIENCE = 60_000;
const SCENARIO = "120000";

// Starts a server and finds out where it listens (a port that is not the 0 that was asked for).
async function started(command, args, env) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const lines = [];
  const address = new Promise((done, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        lines.push(line);
        const found = /(127\.0\.0\.1:[1-9]\d*)/.exec(line);
        if (found) done(found[1]);
      });
    }
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}:\n${lines.join("\n")}`)));
    setTimeout(() => failed(new Error(`no address:\n${lines.join("\n")}`)), PATIENCE).unref();
  });
  return { child, address: await address };
}

function run(revision, address, extra, output) {
  const args = [SUITE, "server", "--url", `http://${address}/mcp`, "--requirements", revision, "--timeout", SCENARIO];
  const ran = spawnSync(process.execPath, [...args, ...extra, "-o", output], { encoding: "utf8", cwd: output });
  console.log(`=== ${revision}\n${ran.stdout}${ran.stderr}`);
  return ran.status === 0;
}

async function main(kind, program) {
  assert(["fixtures", "shipped"].includes(kind), `unknown kind ${kind}`);
  const base = mkdtempSync(join(tmpdir(), "cofferdam-suite-"));
  const workspace = join(base, "workspace");
  mkdirSync(workspace);
  for (const path of [base, workspace]) chmodSync(path, 0o755);
  const args = kind === "fixtures" ? ["127.0.0.1:0"] : ["serve", "--listen", "127.0.0.1:0", "--workspace", workspace];
  const failed = [];
  try {
    for (const revision of REVISIONS) {
      const { child, address } = await started(program, args, { XDG_STATE_HOME: join(base, revision) });
      const extra = kind === "fixtures" ? [] : ["--expected-failures", join(HERE, `shipped-${revision}.yml`)];
      const output = join(base, `results-${revision}`);
      mkdirSync(output);
      try {
        if (!run(revision, address, extra, output)) failed.push(revision);
      } finally {
        child.kill("SIGTERM");
      }
    }
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
  console.log(failed.length === 0 ? `${kind}: as it should be` : `${kind}: FAILED in ${failed.join(", ")}`);
  return failed.length === 0 ? 0 : 1;
}

if (process.argv.length !== 4) {
  console.error("usage: node suite.mjs fixtures|shipped PROGRAM");
  process.exit(2);
}
process.exit(await main(process.argv[2], resolve(process.argv[3])));
