// Every message that `cofferdam serve` writes, against the protocol's schema of its revision, in both eras.
//
//     node tests/conformance/wire.mjs PATH-TO-COFFERDAM
//
// The schemas are those that the official conformance suite carries for its own check of the wire
// (`wire-schema-valid`); its scenarios themselves speak HTTP alone, so that they cannot be run against standard
// input and output. expected-failures.json is a strict baseline: what fails and is not listed is a failure, and so
// is what is listed and passes. Needs what package-lock.json names (npm ci).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import vm from "node:vm";

import Ajv from "ajv/dist/2020.js";
import formats from "ajv-formats";

const HERE = dirname(fileURLToPath(import.meta.url));
const SUITE = join(HERE, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const META = "io.modelcontextprotocol/";
// A bound on waiting for what has to happen, never a measure of how fast it does.
const PATIENCE = 60_000;

// The literal that begins at `at`: to its closing brace, text within backquotes skipped.
function literal(source, at) {
  let depth = 0;
  for (let n = at; n < source.length; n += 1) {
    const character = source[n];
    if (character === "`") {
      for (n += 1; source[n] !== "`"; n += 1) if (source[n] === "\\") n += 1;
    } else if (character === "{") depth += 1;
    else if (character === "}" && --depth === 0) return source.slice(at, n + 1);
  }
  throw new Error("a schema in the suite does not end");
}

// The schemas of both revisions, told apart by the request that only one of them has.
function schemas() {
  const source = readFileSync(SUITE, "utf8");
  const found = {};
  const start = "{$schema:`https://json-schema.org/draft/2020-12/schema`,$defs:{";
  for (let at = source.indexOf(start); at >= 0; at = source.indexOf(start, at + 1)) {
    const schema = vm.runInNewContext(`(${literal(source, at)})`);
    const { DiscoverRequest, InitializeRequest, CallToolRequest } = schema.$defs;
    if (!CallToolRequest) continue;
    if (InitializeRequest) found["2025-11-25"] = schema;
    if (DiscoverRequest && !InitializeRequest) found["2026-07-28"] = schema;
  }
  assert.deepEqual(Object.keys(found).sort(), ["2025-11-25", "2026-07-28"], "the schemas that the suite carries");
  return found;
}

// Says what is wrong with a message that the server wrote, or nothing.
class Judge {
  constructor(schema) {
    this.ajv = new Ajv({ strict: false, allErrors: true });
    formats(this.ajv);
    this.ajv.addFormat("byte", true);
    this.ajv.addSchema({ ...JSON.parse(JSON.stringify(schema)), $id: "mcp" });
    this.definitions = schema.$defs;
    this.ofMethod = new Map();
    for (const [name, definition] of Object.entries(schema.$defs)) {
      const method = definition.properties?.method?.const;
      if (method) this.ofMethod.set(method, name);
    }
  }

  against(name, value) {
    const valid = this.ajv.getSchema(`mcp#/$defs/${name}`);
    assert(valid, `the schema has no ${name}`);
    return valid(value) ? [] : valid.errors.map((error) => `${name}${error.instancePath} ${error.message}`);
  }

  wrong(message, method) {
    if ("method" in message) {
      return this.against("id" in message ? "JSONRPCRequest" : this.ofMethod.get(message.method) ?? "JSONRPCNotification", message);
    }
    if ("error" in message) return this.against("JSONRPCErrorResponse", message);
    const request = this.ofMethod.get(method) ?? "";
    const result = `${request.slice(0, -"Request".length)}Result`;
    return [
      ...this.against("JSONRPCResultResponse", message),
      ...this.against(result in this.definitions ? result : "EmptyResult", message.result),
    ];
  }
}

class Session {
  constructor(command, workspace, home, revision, judge) {
    Object.assign(this, { revision, judge, last: 0, waiting: [], messages: [], heard: [], faults: new Map() });
    this.child = spawn(command, ["serve", "--workspace", workspace], {
      env: { ...process.env, XDG_STATE_HOME: home },
      stdio: ["pipe", "pipe", "ignore"],
    });
    createInterface({ input: this.child.stdout }).on("line", (line) => {
      this.messages.push(JSON.parse(line));
      this.waiting.shift()?.();
    });
  }

  write(line) {
    this.child.stdin.write(`${line}\n`);
  }

  async next() {
    const deadline = Date.now() + PATIENCE;
    while (this.messages.length === 0) {
      assert(Date.now() < deadline, "an answer");
      await Promise.race([
        new Promise((done) => this.waiting.push(done)),
        new Promise((done) => setTimeout(done, 1000).unref()),
      ]);
    }
    return this.messages.shift();
  }

  // The answer to a line; all that came on the way to it is judged under the name of the check.
  async line(check, line, method) {
    const name = `${this.revision}: ${check}`;
    const faults = this.faults.get(name) ?? [];
    this.faults.set(name, faults);
    this.write(line);
    for (;;) {
      const message = await this.next();
      faults.push(...this.judge.wrong(message, method));
      if (!("method" in message)) return message;
      this.heard.push(message);
    }
  }

  ask(check, method, params = {}, meta = {}) {
    if (this.revision === "2026-07-28") {
      meta = { [`${META}protocolVersion`]: this.revision, [`${META}clientCapabilities`]: {}, ...meta };
    }
    if (Object.keys(meta).length > 0) params = { ...params, _meta: meta };
    return this.line(check, JSON.stringify({ jsonrpc: "2.0", id: ++this.last, method, params }), method);
  }

  async call(check, name, args, meta) {
    return (await this.ask(check, "tools/call", { name, arguments: args }, meta)).result;
  }
}

function cacheable({ ttlMs, cacheScope }) {
  assert(Number.isInteger(ttlMs) && ttlMs >= 0 && ["private", "public"].includes(cacheScope), `${ttlMs} ${cacheScope}`);
}

async function drive(session) {
  const legacy = session.revision === "2025-11-25";
  if (legacy) {
    await session.ask("too early", "tools/list");
    const clientInfo = { name: "wire", version: "1" };
    const hello = await session.ask("initialize", "initialize", { protocolVersion: session.revision, capabilities: {}, clientInfo });
    assert.equal(hello.result.protocolVersion, session.revision);
    session.write('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    assert.deepEqual((await session.ask("ping", "ping")).result, {});
    assert.deepEqual((await session.ask("setLevel", "logging/setLevel", { level: "debug" })).result, {});
  } else {
    const found = await session.ask("discover", "server/discover");
    assert(found.result.supportedVersions.includes(session.revision));
    cacheable(found.result);
    for (const [method, params] of [
      ["ping", {}],
      ["logging/setLevel", { level: "info" }],
      ["resources/subscribe", { uri: "x:y" }],
      ["resources/unsubscribe", { uri: "x:y" }],
    ]) {
      assert.equal((await session.ask(`${method} is gone`, method, params)).error.code, -32601, method);
    }
    for (const key of ["protocolVersion", "clientCapabilities"]) {
      const { error } = await session.ask(`no ${key}`, "tools/list", {}, { [META + key]: undefined });
      assert.equal(error.code, -32602, key);
    }
    const { error } = await session.ask("an unknown version", "tools/list", {}, { [`${META}protocolVersion`]: "1999-01-01" });
    assert.equal(error.code, -32022);
  }
  const list = (await session.ask("list", "tools/list")).result;
  assert.equal(list.tools.length, 6);
  if (!legacy) cacheable(list);
  session.heard.length = 0;
  await session.call("run without opting in", "sh_run", { command: "cat", args: ["long"] });
  assert.deepEqual(session.heard, []);
  const opted = { ...(legacy ? {} : { [`${META}logLevel`]: "debug" }), progressToken: "p" };
  const run = await session.call("run", "sh_run", { command: "cat", args: ["long"] }, opted);
  assert.equal(run.structuredContent.exit, 0);
  const told = session.heard.filter(({ method }) => method === "notifications/message");
  if (legacy) assert.deepEqual(told, []);
  else assert.equal(told.map(({ params }) => params.data.text).join(""), run.structuredContent.stdout);
  const slow = await session.call("timeout", "sh_run", { command: "tail", args: ["-f", "long"], timeout: 3 }, opted);
  assert.equal(slow.structuredContent["timed-out"], true);
  assert(session.heard.some(({ method, params }) => method === "notifications/progress" && params.progressToken === "p"));
  assert.equal((await session.call("refusal", "sh_run", { command: "rm" })).isError, true);
  assert.equal((await session.call("wrong arguments", "sh_run", { command: 5 })).isError, true);
  await session.call("allowed", "sh_allowed", {});
  const { job } = (await session.call("start", "sh_start", { command: "tail", args: ["-f", "long"] }, opted)).structuredContent;
  await session.call("poll", "sh_poll", { job });
  await session.call("output", "sh_output", { job, cursor: "0" });
  assert.equal((await session.call("kill", "sh_kill", { job })).structuredContent.killed, true);
  assert.equal((await session.call("no job", "sh_poll", { job: "j1-none" })).isError, true);
  for (const [check, method, params, code] of [
    ["an unknown tool", "tools/call", { name: "sh_rm", arguments: {} }, -32602],
    ["parameters of a wrong type", "tools/call", { name: 5 }, -32602],
    ["an unknown method", "no/such/method", {}, -32601],
    ["a method that is not served", "resources/list", {}, -32601],
  ]) {
    const answer = await session.ask(check, method, params);
    assert.equal(answer.error?.code, code, `${check}: ${JSON.stringify(answer)}`);
  }
  assert.equal((await session.line("a line that is no JSON", "{")).error.code, -32700);
  assert.equal((await session.line("a batch", "[]")).error.code, -32600);
  assert.equal((await session.line("no method", '{"jsonrpc":"2.0","id":"x"}')).error.code, -32600);
  session.child.stdin.end();
  const [status] = await once(session.child, "exit");
  assert.equal(status, 0);
}

async function main(binary) {
  const expected = JSON.parse(readFileSync(join(HERE, "expected-failures.json"), "utf8")).map(({ check }) => check);
  const base = mkdtempSync(join(tmpdir(), "cofferdam-wire-"));
  const workspace = join(base, "workspace");
  mkdirSync(workspace);
  for (const path of [base, workspace]) chmodSync(path, 0o755);
  writeFileSync(join(workspace, "long"), "a line of text\n".repeat(6000));
  const bad = [];
  let checks = 0;
  try {
    for (const [revision, schema] of Object.entries(schemas())) {
      const session = new Session(binary, workspace, join(base, revision), revision, new Judge(schema));
      try {
        await drive(session);
      } finally {
        session.child.kill("SIGKILL");
      }
      for (const [check, faults] of session.faults) {
        checks += 1;
        if (faults.length > 0 && !expected.includes(check)) bad.push(`${check}: ${faults.join("; ")}`);
        if (faults.length === 0 && expected.includes(check)) bad.push(`${check}: passes, and is listed as a failure`);
      }
      const unknown = expected.filter((check) => check.startsWith(revision) && !session.faults.has(check));
      bad.push(...unknown.map((check) => `${check}: listed, and there is no such check`));
    }
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
  for (const line of bad) console.error(`FAILED: ${line}`);
  console.log(`${checks} checks, ${expected.length} expected to fail, ${bad.length} unlike the baseline`);
  return bad.length === 0 ? 0 : 1;
}

if (process.argv.length !== 3) {
  console.error("usage: node wire.mjs PATH-TO-COFFERDAM");
  process.exit(2);
}
process.exit(await main(resolve(process.argv[2])));
