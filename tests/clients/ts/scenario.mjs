// Drives `cofferdam serve` through the shared scenario with the TypeScript SDK's client, in both eras.
//
//     node tests/clients/ts/scenario.mjs PATH-TO-COFFERDAM
//
// SCENARIO.md says what the steps mean. Prints `N steps passed`; the first that fails ends it with status 1.
// Needs `cc` and what package-lock.json names (npm ci).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const CLIENTS = dirname(dirname(fileURLToPath(import.meta.url)));
const SCENARIO = JSON.parse(readFileSync(join(CLIENTS, "scenario.json"), "utf8"));
const MODES = [
  ["legacy", "legacy", "2025-11-25"],
  [{ pin: "2026-07-28" }, "modern", "2026-07-28"],
  ["auto", "modern", "2026-07-28"],
];
// A bound on waiting for something that has to happen, never a measure of how fast it does.
const PATIENCE = 60_000;

const content = (file) =>
  file.text ?? Array.from({ length: file.lines }, (_, n) => String(n).padStart(5, "0") + file.numbered).join("");

// A workspace, a policy and the words that steps may use.
function stage(base) {
  chmodSync(base, 0o755);
  const words = { workspace: join(base, "workspace"), audit: join(base, "log/audit.jsonl"), sleeper: join(base, "bin/sleeper") };
  for (const directory of [words.workspace, dirname(words.audit), dirname(words.sleeper)]) mkdirSync(directory);
  execFileSync("cc", ["-o", words.sleeper, join(CLIENTS, "sleeper.c")]);
  for (const [name, file] of Object.entries(SCENARIO.files)) {
    words[name] = content(file);
    writeFileSync(join(words.workspace, name), words[name]);
  }
  for (const mark of SCENARIO.marks) words[mark] = `mark-${randomUUID()}`;
  const policy = join(base, "policy.toml");
  writeFileSync(policy, filled(SCENARIO.policy, words).join("\n") + "\n");
  return { words, policy };
}

function filled(value, words) {
  if (typeof value === "string") {
    return value.replace(/\{([a-z.-]+)\}/g, (_, word) => {
      assert(word in words, `no such word: ${word}`);
      return words[word];
    });
  }
  if (Array.isArray(value)) return value.map((item) => filled(item, words));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item, words)]));
  }
  return value;
}

const isDeepEqual = (left, right) => {
  try {
    assert.deepEqual(left, right);
    return true;
  } catch {
    return false;
  }
};
const holds = (wanted, object) => Object.entries(wanted).every(([key, value]) => isDeepEqual(object[key], value));

// Processes that carry `mark` among their arguments.
function marked(mark) {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const state = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)[0];
      return state !== "Z" && readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(mark);
    } catch (error) {
      if (error.code === "ENOENT" || error.code === "ESRCH") return false; // gone meanwhile
      throw error;
    }
  });
}

async function until(what, condition) {
  const deadline = Date.now() + PATIENCE;
  while (!condition()) {
    assert(Date.now() < deadline, `waited in vain: ${what}`);
    await sleep(20);
  }
}

const recorded = (audit, wanted) =>
  readFileSync(audit, "utf8").split("\n").filter(Boolean).some((line) => holds(wanted, JSON.parse(line)));

class Session {
  constructor(client, words, modern) {
    Object.assign(this, { client, words, modern, messages: [] });
    client.setNotificationHandler("notifications/message", (message) => void this.messages.push(message.params));
  }

  // Whether the call does what the step says, and what came of it.
  async call(step) {
    const _meta = step.stream && this.modern ? { "io.modelcontextprotocol/logLevel": "info" } : undefined;
    let result;
    try {
      result = await this.client.callTool({ name: step.tool, arguments: step.arguments, _meta }, { timeout: PATIENCE });
    } catch (error) {
      return { good: "code" in step && error.code === step.code, said: error };
    }
    const said = result.content.map((block) => block.text).join("");
    if ("code" in step) return { good: false, said };
    if ("refused" in step) return { good: result.isError === true && said.startsWith(step.refused), said };
    const payload = result.structuredContent ?? {};
    return { good: !result.isError && holds(step.expect ?? {}, payload), said, payload };
  }

  async tool(step) {
    const deadline = Date.now() + PATIENCE;
    this.messages.length = 0;
    let done = await this.call(step);
    while (!done.good && step.repeat && Date.now() < deadline) {
      await sleep(50);
      done = await this.call(step);
    }
    assert(done.good, done.said);
    for (const [word, key] of Object.entries(step.save ?? {})) this.words[word] = done.payload[key];
    if (!step.stream) return;
    const told = this.messages.filter(({ logger, data }) => logger === step.tool && data.stream === "stdout");
    if (!this.modern) return assert.deepEqual(told, []);
    assert(told.length >= step.stream, `${told.length} messages`);
    assert.equal(told.map(({ data }) => data.text).join(""), done.payload.stdout);
  }

  async cancel(step) {
    const controller = new AbortController();
    const call = this.client.callTool({ name: step.tool, arguments: step.arguments }, { signal: controller.signal });
    const refused = assert.rejects(call);
    await until("the command is there", () => marked(step.cancel).length >= 2);
    controller.abort("the user changed their mind");
    await refused;
    await until("the command is gone", () => marked(step.cancel).length === 0);
  }

  async follow(step) {
    const pieces = [];
    let piece = { cursor: "0" };
    do {
      const asked = { job: step.follow, cursor: piece.cursor, max_bytes: step.max_bytes };
      piece = (await this.client.callTool({ name: `${step.prefix}_output`, arguments: asked })).structuredContent;
      if (piece.stdout) pieces.push(piece.stdout);
    } while (!piece.eof);
    assert.equal(pieces.join(""), step.stdout);
    assert(pieces.length >= step.pieces, `${pieces.length} pieces`);
  }

  async listed(step) {
    const { tools } = await this.client.listTools();
    assert.deepEqual(tools.map(({ name }) => name).sort(), step.tools);
  }
}

async function take(asked, words, session) {
  const step = filled(asked, words);
  try {
    if (step.tools) await session.listed(step);
    else if (step.follow) await session.follow(step);
    else if (step.cancel) await session.cancel(step);
    else if (step.tool) await session.tool(step);
    if (step.record) await until("the record", () => recorded(words.audit, step.record));
    if (step.present) await until("processes are there", () => marked(step.present).length >= 2);
    if (step.gone) await until("processes are gone", () => marked(step.gone).length === 0);
  } catch (error) {
    throw new Error(`${step.name}: ${error.message}`, { cause: error });
  }
}

async function drive(command, [mode, era, version]) {
  const base = mkdtempSync(join(tmpdir(), "cofferdam-scenario-"));
  try {
    const { words, policy } = stage(base);
    const client = new Client({ name: "scenario", version: "1" }, { versionNegotiation: { mode } });
    const faults = [];
    client.onerror = (error) => void faults.push(error);
    const session = new Session(client, words, era === "modern");
    await client.connect(new StdioClientTransport({ command, args: ["serve", "--policy", policy], stderr: "ignore" }));
    assert.equal(client.getProtocolEra(), era);
    assert.equal(client.getNegotiatedProtocolVersion(), version);
    for (const step of SCENARIO.steps) await take(step, words, session);
    await client.close();
    for (const step of SCENARIO.after) await take(step, words);
    assert.deepEqual(faults, [], "what the SDK could not make sense of");
    return SCENARIO.steps.length + SCENARIO.after.length;
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

if (process.argv.length !== 3) {
  console.error("usage: node scenario.mjs PATH-TO-COFFERDAM");
  process.exit(2);
}
let steps = 0;
for (const mode of MODES) steps += await drive(resolve(process.argv[2]), mode);
console.log(`${steps} steps passed`);
