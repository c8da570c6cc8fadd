// Asks Shiftboss before every tool call. Without a contract, everything is allowed.
import { spawnSync } from "node:child_process"

export const Shiftboss = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const call = JSON.stringify({ tool: input.tool, args: output.args ?? {}, cwd: directory })
    const hook = spawnSync("shiftboss", ["hook", "opencode-before-tool"], {
      input: call,
      cwd: directory,
      encoding: "utf8",
      timeout: 10000,
      maxBuffer: 1 << 20,
    })
    // Shiftboss is not installed here. A run of Shiftboss brings its own hooks.
    if (hook.error?.code === "ENOENT") return
    if (hook.error || hook.status !== 0) {
      const reason = (hook.stderr || "").trim()
      throw new Error(reason || `Shiftboss refused this: its hook did not run: ${hook.error}`)
    }
  },
})
