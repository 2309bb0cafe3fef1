// SPDX-License-Identifier: Apache-2.0
// Imports a Chrome trace with speedscope's own code, without a browser.
//   node speedscope_import.js RELEASE TRACE > profiles.json
// RELEASE is the dist/release folder of the npm package. Output: per profile {name, total, calls: {frame: count}}. Exit
// status 3 when this version of speedscope has another shape than expected.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [release, tracePath] = process.argv.slice(2);
const bundle = fs.readdirSync(release).find((name) => /^speedscope.*\.js$/.test(name));
let source = bundle ? fs.readFileSync(path.join(release, bundle), "utf8") : "";

// The importer is the function called behind its log line; the page starts at the version's line.
const importer = source.match(/Importing as Trace Event Format profile"\),(\w+)\(/);
const start = "console.log(`speedscope v";
if (!importer || !source.includes(start)) process.exit(3);
source = source.replace(start, `globalThis.importTrace=${importer[1]};throw "stop";${start}`);

// Anything the page might touch: any member is again such a thing.
const anything = () =>
  new Proxy(function () {}, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => "" : key === "length" ? 0 : anything()),
    apply: () => anything(),
    construct: () => anything(),
    set: () => true,
  });
const quiet = { log() {}, warn() {}, error() {} };
const scope = {
  console: quiet, setTimeout, clearTimeout, URL, TextDecoder, TextEncoder, performance,
  document: anything(),
  navigator: { platform: "", userAgent: "" },
  location: { hash: "", protocol: "http:", href: "http://localhost/" },
  localStorage: {},
  devicePixelRatio: 1,
  addEventListener() {},
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  requestAnimationFrame: () => 0,
  fetch: () => Promise.reject(new Error("no network")),
  FontFace: function () {
    this.load = () => Promise.resolve();
  },
};
scope.window = scope.self = scope.globalThis = scope;
vm.createContext(scope);
try {
  vm.runInContext(source, scope);
} catch (error) {
  if (error !== "stop") throw error;
}
if (typeof scope.importTrace !== "function") process.exit(3);

const group = scope.importTrace(JSON.parse(fs.readFileSync(tracePath, "utf8")));
const out = group.profiles.map((profile) => {
  const calls = {};
  profile.forEachCall(
    (node) => (calls[node.frame.name] = (calls[node.frame.name] || 0) + 1),
    () => {},
  );
  return { name: profile.getName(), total: profile.getTotalWeight(), calls };
});
process.stdout.write(JSON.stringify(out));
