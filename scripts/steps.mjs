// What the scripts share: running one step after the other, in the open.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Runs a step at the root of the repository; ends the script where it fails. */
export function run(what, command, args = [], env = {}) {
  const started = Date.now();
  console.log(`\n── ${what}: ${[command, ...args].join(" ")}`);
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
    shell: process.platform === "win32",
  });
  if (error?.code === "ENOENT") console.error(`${command} is not installed`);
  if (status !== 0) {
    console.error(`── failed: ${what}`);
    process.exit(status ?? 1);
  }
  console.log(`── ${what}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

/** Whether a command answers at all. */
export function has(command, args) {
  return spawnSync(command, args, { cwd: root, stdio: "ignore", shell: process.platform === "win32" }).status === 0;
}

/** Installs what package-lock.json names, unless that is what is there. */
export function installPackages() {
  const installed = path.join(root, "node_modules", ".package-lock.json");
  const wanted = path.join(root, "package-lock.json");
  const fresh = fs.existsSync(installed) && fs.statSync(installed).mtimeMs >= fs.statSync(wanted).mtimeMs;
  if (!fresh) run("install the development packages", "npm", ["ci", "--no-audit", "--no-fund"]);
}
