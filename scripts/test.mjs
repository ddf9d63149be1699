// The whole bar, in one command: format, lints, Rust tests, build, types, Jest. CI runs the same.
import { has, installPackages, run } from "./steps.mjs";

const RUST_ONLY = ["--no-default-features", "--locked"];

installPackages();
if (has("cargo", ["fmt", "--version"])) run("Rust format", "cargo", ["fmt", "--check"]);
else console.log("\n── Rust format: skipped, this toolchain has no rustfmt");
if (has("cargo", ["clippy", "--version"])) {
  run("Rust lints", "cargo", ["clippy", "--release", "--locked", "--", "-D", "warnings"]);
  run("Rust lints, tests too", "cargo", ["clippy", "--release", "--all-targets", ...RUST_ONLY, "--", "-D", "warnings"]);
} else console.log("\n── Rust lints: skipped, this toolchain has no clippy");
run("Rust tests", "cargo", ["test", "--release", ...RUST_ONLY]);
await import("./build.mjs");
run("JavaScript format and lints", "npx", ["biome", "check", "--error-on-warnings"]);
run("types of the package", "npx", ["tsc", "--project", "tsconfig.json"]);
run("types of a caller", "npx", ["tsc", "--project", "__test__/types/tsconfig.json"]);
run("Jest", "npx", ["jest", ...process.argv.slice(2)]);
