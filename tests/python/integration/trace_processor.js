// SPDX-License-Identifier: Apache-2.0
// Runs Perfetto's trace processor (the WebAssembly build of its UI) without a browser.
//   node trace_processor.js DIST TRACE < queries.json > results.json
// DIST holds engine_bundle.js and trace_processor*.wasm. Input: a JSON list of SQL texts. Output: one
// {columns, rows} or {error} per query; integers beyond 2^53 are strings. Exit status 1 when the
// trace is refused. Field numbers: protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [dist, tracePath] = process.argv.slice(2);

// --- protobuf, as much as is needed ---
function varint(value) {
  const out = [];
  for (let v = BigInt(value); ; v >>= 7n) {
    if (v < 128n) return Buffer.from([...out, Number(v)]);
    out.push(Number(v & 127n) | 128);
  }
}
const bytesField = (id, data) => Buffer.concat([varint((id << 3) | 2), varint(data.length), data]);
const intField = (id, value) => Buffer.concat([varint(id << 3), varint(value)]);

function* fields(buffer) {
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buffer.length) {
    const tag = Number(read());
    const wire = tag & 7;
    if (wire === 0) yield [tag >> 3, read()];
    else if (wire === 1) yield [tag >> 3, buffer.subarray(at, (at += 8))];
    else if (wire === 5) yield [tag >> 3, buffer.subarray(at, (at += 4))];
    else {
      const size = Number(read());
      yield [tag >> 3, buffer.subarray(at, (at += size))];
    }
  }
}
function packedVarints(buffer) {
  const out = [];
  for (let at = 0; at < buffer.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    out.push(BigInt.asIntN(64, value));
  }
  return out;
}
const plain = (v) => (v >= -(2n ** 53n) && v <= 2n ** 53n ? Number(v) : v.toString());

// --- the worker environment that the bundle expects ---
class FileRequest {
  open(_method, url) {
    this.url = url;
  }
  send() {
    const data = fs.readFileSync(path.join(dist, path.basename(this.url)));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    this.status = 200;
    if (this.onload) this.onload();
  }
}
const quiet = { log() {}, warn() {}, error() {}, debug() {}, info() {} };
const scope = {
  XMLHttpRequest: FileRequest,
  WorkerGlobalScope: function () {},
  importScripts() {},
  location: { href: "file:///" },
  console: quiet,
  performance, TextDecoder, TextEncoder, URL, WebAssembly, setTimeout, clearTimeout,
  // Those of this realm: the bundle checks what it is handed with instanceof.
  Uint8Array, ArrayBuffer, Error, TypeError,
};
scope.self = scope;
scope.globalThis = scope;
vm.createContext(scope);
vm.runInContext(fs.readFileSync(path.join(dist, "engine_bundle.js"), "utf8"), scope);

const replies = [];
const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
scope.onmessage({ data: port });

let sequence = 0;
function request(method, ...args) {
  const rpc = Buffer.concat([intField(1, sequence++), intField(2, method), ...args]);
  const start = replies.length;
  port.onmessage({ data: new Uint8Array(bytesField(1, rpc)) });
  const out = [];
  for (const [, message] of fields(Buffer.concat(replies.slice(start)))) {
    const parts = new Map();
    for (const [id, value] of fields(message)) parts.set(id, value);
    if (parts.has(5)) throw new Error("trace processor: " + parts.get(5).toString());
    out.push(parts);
  }
  replies.length = 0;
  return out;
}

function query(sql) {
  const result = { columns: [], rows: [] };
  const cells = [];
  for (const reply of request(3, bytesField(103, bytesField(1, Buffer.from(sql))))) {
    for (const [id, value] of fields(reply.get(203))) {
      if (id === 1) result.columns.push(value.toString());
      if (id === 2 && value.length) return { error: value.toString() };
      if (id !== 3) continue;
      let types = [], ints = [], doubles = [], strings = [];
      for (const [part, data] of fields(value)) {
        if (part === 1) types = packedVarints(data);
        if (part === 2) ints = packedVarints(data).map(plain);
        if (part === 3) for (let at = 0; at < data.length; at += 8) doubles.push(data.readDoubleLE(at));
        if (part === 5) strings = data.toString().split("\0");
      }
      for (const type of types) {
        if (type === 1n) cells.push(null);
        else if (type === 2n) cells.push(ints.shift());
        else if (type === 3n) cells.push(doubles.shift());
        else if (type === 4n) cells.push(strings.shift());
        else cells.push("(blob)");
      }
    }
  }
  const width = result.columns.length;
  for (let at = 0; at + width <= cells.length && width > 0; at += width) {
    result.rows.push(cells.slice(at, at + width));
  }
  return result;
}

function main() {
  const trace = fs.readFileSync(tracePath);
  for (let at = 0; at < trace.length; at += 1 << 24) {
    for (const reply of request(1, bytesField(101, trace.subarray(at, at + (1 << 24))))) {
      for (const [id, value] of fields(reply.get(201) || Buffer.alloc(0))) {
        if (id === 2) throw new Error("trace refused: " + value.toString());
      }
    }
  }
  request(2);
  const queries = JSON.parse(fs.readFileSync(0, "utf8"));
  process.stdout.write(JSON.stringify(queries.map(query)));
}

// The module starts asynchronously: by the next macrotask its runtime is up.
setTimeout(() => {
  try {
    main();
  } catch (error) {
    process.stderr.write(String((error && error.stack) || error) + "\n");
    process.exitCode = 1;
  }
}, 50);
