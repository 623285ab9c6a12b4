import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { Script } from "node:vm";

interface Place {
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

type Evaluate = (
  require: (name: string) => unknown,
  module: { exports: { readonly ended?: Promise<unknown> } },
  process: object,
  dirname: string,
) => void;

const evaluations = new Map<string, Evaluate>();

/** Returns a function that runs the file of a program each time that it is called. */
function evaluationOf(file: string): Evaluate {
  const code = readFileSync(file, "utf8").replace(/^#!.*/, "");
  const wrapped = `(function (require, module, process, __dirname) { ${code}\n})`;
  // The script is a function of this form.
  const evaluate = evaluations.get(file) ?? (new Script(wrapped, { filename: file }).runInThisContext() as Evaluate);
  evaluations.set(file, evaluate);
  return evaluate;
}

/**
 * Runs a built program in this process, because a start of another one computes for a tenth of a second. The program has its own
 * arguments, environment, outputs and exit code, no terminal, and `folder` as its working directory.
 */
export async function runProgram(file: string, args: readonly string[], { folder, env }: Place): Promise<Run> {
  let [out, err] = ["", ""];
  const values = {
    argv: [process.execPath, file, ...args],
    env,
    stdin: { isTTY: false },
    stdout: { write: (text: string) => (out += text) },
    stderr: { write: (text: string) => (err += text) },
    exit: (code: number) => {
      throw new Error(`The program exits with ${code}.`);
    },
    exitCode: undefined as number | undefined,
  };
  const own: typeof values = Object.create(process, Object.getOwnPropertyDescriptors(values));
  const requireHere = createRequire(file);
  const module: Parameters<Evaluate>[1] = { exports: {} };
  const before = process.cwd();
  process.chdir(folder);
  try {
    evaluationOf(file)((name) => (name === "node:process" ? own : requireHere(name)), module, own, dirname(file));
    if (module.exports.ended === undefined) throw new Error(`${file} does not export when it has ended.`);
    await module.exports.ended;
  } finally {
    process.chdir(before);
  }
  return { code: own.exitCode ?? 0, out, err };
}

/** Starts a program as a process of its own. */
export const startProgram = (file: string, args: readonly string[], { folder, env }: Place): ChildProcess =>
  spawn(process.execPath, [file, ...args], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    // The types of Workers also add the Worker's variables to `env`.
    env: env as unknown as NodeJS.ProcessEnv,
  });

/** Waits for the end of a process. */
export function finished(child: ChildProcess): Promise<Run> {
  let [out, err] = ["", ""];
  child.stdout?.on("data", (chunk) => {
    out += chunk;
  });
  child.stderr?.on("data", (chunk) => {
    err += chunk;
  });
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, out, err })));
}
